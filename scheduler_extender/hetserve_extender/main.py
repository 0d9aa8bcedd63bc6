"""The extender's process: command line, settings, connections, shutdown."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, Final

import click
import uvloop

from hetserve_extender.check_certificates import check_certificates
from hetserve_extender.extender import Extender
from hetserve_extender.settings import Settings
from hetserve_shell import process
from hetserve_shell.kube.client import LEASE_CONNECTIONS, KubernetesApi
from hetserve_shell.kube.connection import ApiConnection
from hetserve_shell.kube.reviews import REVIEW_CONNECTIONS
from hetserve_shell.tasks import garbage

POD_NAME: Final = "POD_NAME"
"""Environment variable with the name of our pod."""


@click.group(invoke_without_command=True)
@process.config_option
@process.kubeconfig_option
@click.option("--host", help="Address of both ports.")
@click.option("--port", type=int, help="Port of the scheduler's verbs.")
@click.option("--identity", help="Who we are in the Lease; default: the pod, else the host.")
@click.option("--probe-port", type=int, help="Port of health, metrics and the ledger.")
@process.probe_authorization_option
@process.log_level_option
@click.version_option(package_name="hetserve")
@click.pass_context
def main(
    called: click.Context, /, config_path: Path | None, kubeconfig: Path | None, identity: str | None, **flags: Any
) -> None:
    """Scheduler extender of hetserve: places pods on GPUs and releases them from their queues."""
    if called.invoked_subcommand is not None:
        return
    settings = process.settings_or_exit(Settings, config_path, flags)
    if identity:
        settings = settings.identified(identity)
    if kubeconfig is not None and not kubeconfig.is_file():
        raise click.ClickException(f"kubeconfig {kubeconfig} does not exist")
    process.log_to_stderr(settings.log_level)
    process.run_or_exit(uvloop.run, serve(settings, kubeconfig))


main.add_command(check_certificates)


async def serve(settings: Settings, kubeconfig: Path | None) -> None:
    """Runs until SIGTERM or SIGINT. Raises the error that ends any part."""
    garbage.relax()
    stop = asyncio.Event()
    process.stop_on_signals(stop)
    connection = await ApiConnection.connect(kubeconfig, user_agent="hetserve-extender")
    api, lease_api = KubernetesApi(connection), KubernetesApi(connection, LEASE_CONNECTIONS)
    review_api = KubernetesApi(connection, REVIEW_CONNECTIONS)
    try:
        await Extender(settings, api, os.environ.get(POD_NAME), lease_api, review_api).run(stop)
    finally:
        for one in (api, lease_api, review_api):
            one.close()
        await connection.close()
