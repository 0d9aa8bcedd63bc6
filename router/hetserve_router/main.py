"""The router's process: command line, settings, services and instances of files, shutdown."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, Final, get_args

import click
import uvloop

from hetserve.api.service.dispatch import DispatchPorts, DispatchSpec
from hetserve.base.files import InputError
from hetserve_router.access_log import AccessLogged
from hetserve_router.cluster import ClusterRouter
from hetserve_router.instances import InstanceAddress
from hetserve_router.manifests import read_instances, services_of
from hetserve_router.router import Router
from hetserve_router.served import ServedSpec
from hetserve_router.settings import RouterSettings
from hetserve_services.facts import Key
from hetserve_shell import process
from hetserve_shell.kube.client import api_clients
from hetserve_shell.tasks import garbage

POD_NAME: Final = "POD_NAME"
"""Environment variable with the name of our own pod, by the downward API."""


@click.command()
@process.config_option
@process.kubeconfig_option
@click.option("--manifests", multiple=True, help="Without a cluster: services, types and profiles, a file or a folder.")
@click.option(
    "--instances",
    type=click.Path(path_type=Path),
    help="Without a cluster: a YAML or JSON list of {name, type, url}, with {service: NAMESPACE/NAME} where there are "
    "several.",
)
@click.option("--host", help="Address of the ports.")
@click.option("--port", type=int, help="Port of queries.")
@click.option("--probe-port", type=int, help="Port of health and metrics.")
@click.option("--access-log", type=click.Choice(get_args(AccessLogged)), help="Queries of which stdout has a line.")
@process.probe_authorization_option
@process.log_level_option
@click.version_option(package_name="hetserve")
def main(
    config_path: Path | None,
    kubeconfig: Path | None,
    manifests: tuple[str, ...],
    instances: Path | None,
    **flags: Any,
) -> None:
    """Router of hetserve: gives each query of the Open Inference Protocol v2 to the instance that its policy picks."""
    settings = process.settings_or_exit(RouterSettings, config_path, flags)
    if bool(manifests) != (instances is not None):
        raise click.UsageError("--manifests and --instances go together: without both, a cluster is asked")
    serving = serve_cluster(settings, kubeconfig)
    if instances is not None:
        serving.close()
        serving = _files(settings, manifests, instances)
    process.log_to_stderr(settings.log_level)
    garbage.relax()
    garbage.keep_freed()
    process.run_or_exit(uvloop.run, serving)


def _files(settings: RouterSettings, manifests: tuple[str, ...], instances: Path) -> Coroutine[Any, Any, None]:
    try:
        specs = _specs(manifests, settings)
        found = read_instances(instances, [spec.facts.key for spec in specs])
    except InputError as error:
        raise click.UsageError(str(error)) from None
    addresses: dict[Key, list[InstanceAddress]] = {}
    for key, one in found:
        addresses.setdefault(key, []).append(
            InstanceAddress(one.name, one.name, one.type, *one.address, one.address[1])
        )
    return serve_files(settings, specs, addresses)


def _specs(manifests: tuple[str, ...], settings: RouterSettings) -> list[ServedSpec]:
    """A service that declares no dispatch is served by the defaults: whoever names its instances wants that."""
    default = DispatchSpec(ports=DispatchPorts(http=80, grpc=80))
    return [
        ServedSpec(facts, service.spec.dispatch or default)
        for service, facts in services_of(manifests, settings.max_slowdown)
    ]


async def serve_files(
    settings: RouterSettings, specs: Sequence[ServedSpec], instances: dict[Key, list[InstanceAddress]]
) -> None:
    """Runs until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    process.stop_on_signals(stop)
    namespaces = tuple(sorted({spec.facts.namespace for spec in specs}))
    router = Router(settings, namespaces)
    router.declare(specs)
    router.stand(instances)
    router.is_ready = True
    await router.run(stop)


async def serve_cluster(settings: RouterSettings, kubeconfig: Path | None) -> None:
    """Runs until SIGTERM or SIGINT. Raises the error that ends any part."""
    stop = asyncio.Event()
    process.stop_on_signals(stop)
    async with api_clients(kubeconfig, "hetserve-router") as (api, lease_api, review_api):
        pod = os.environ.get(POD_NAME)
        await ClusterRouter(settings, api, lease_api=lease_api, review_api=review_api, pod=pod).run(stop)
