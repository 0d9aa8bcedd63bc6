"""The extender's process: command line, settings, connections, shutdown."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click
import uvloop

from hetserve_extender.extender import Extender
from hetserve_extender.settings import Settings
from hetserve_shell import process
from hetserve_shell.kube.client import api_clients
from hetserve_shell.tasks import garbage


@click.command()
@process.config_option
@process.kubeconfig_option
@click.option("--host", help="Address of the probe port.")
@click.option("--port", type=int, help="Port of the scheduler's verbs, on the loopback.")
@click.option("--scheduler-host", help="Host of our scheduler, as its Lease names it; default: our own.")
@click.option("--probe-port", type=int, help="Port of health, metrics and the ledger.")
@process.probe_authorization_option
@process.log_level_option
@click.version_option(package_name="hetserve")
def main(config_path: Path | None, kubeconfig: Path | None, scheduler_host: str | None, **flags: Any) -> None:
    """Scheduler extender of hetserve: places pods on GPUs and releases them from their queues."""
    settings = process.settings_or_exit(Settings, config_path, flags)
    if scheduler_host:
        settings = settings.beside(scheduler_host)
    if kubeconfig is not None and not kubeconfig.is_file():
        raise click.ClickException(f"kubeconfig {kubeconfig} does not exist")
    process.log_to_stderr(settings.log_level)
    process.run_or_exit(uvloop.run, serve(settings, kubeconfig))


async def serve(settings: Settings, kubeconfig: Path | None) -> None:
    """Runs until SIGTERM or SIGINT. Raises the error that ends any part."""
    garbage.relax()
    stop = asyncio.Event()
    process.stop_on_signals(stop)
    async with api_clients(kubeconfig, "hetserve-extender") as (api, lease_api, review_api):
        await Extender(settings, api, lease_api, review_api).run(stop)
