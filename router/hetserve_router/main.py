"""The router's process: command line, settings, services and instances of files, shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
import uvloop

from hetserve.api.service.dispatch import DispatchPorts, DispatchSpec
from hetserve.base.files import InputError
from hetserve_router.instances import InstanceAddress
from hetserve_router.manifests import read_instances, services_of
from hetserve_router.router import Router
from hetserve_router.served import ServedSpec
from hetserve_router.settings import RouterSettings
from hetserve_services.facts import Key
from hetserve_shell import process
from hetserve_shell.tasks import garbage

EXIT_BAD_INPUT: Final = 2


class BadInputError(click.ClickException):
    """A file that a flag names is wrong."""

    exit_code = EXIT_BAD_INPUT


@click.command()
@process.config_option
@click.option("--manifests", multiple=True, required=True, help="Services, types and profiles: a file or a folder.")
@click.option(
    "--instances",
    type=click.Path(path_type=Path),
    required=True,
    help="YAML or JSON: a list of {name, type, url}, with {service: NAMESPACE/NAME} where there are several.",
)
@click.option("--host", help="Address of the ports.")
@click.option("--port", type=int, help="Port of queries.")
@click.option("--probe-port", type=int, help="Port of health and metrics.")
@click.option("--access-log", type=click.Choice(("none", "errors", "all")), help="Which queries are logged.")
@process.log_level_option
@click.version_option(package_name="hetserve")
def main(config_path: Path | None, manifests: tuple[str, ...], instances: Path, **flags: Any) -> None:
    """Router of hetserve: gives each query of the Open Inference Protocol v2 to the instance that its policy picks."""
    settings = process.settings_or_exit(RouterSettings, config_path, flags)
    try:
        specs = _specs(manifests, settings)
        found = read_instances(instances, [spec.facts.key for spec in specs])
    except InputError as error:
        raise BadInputError(str(error)) from None
    process.log_to_stderr(settings.log_level)
    addresses: dict[Key, list[InstanceAddress]] = {}
    for key, one in found:
        addresses.setdefault(key, []).append(InstanceAddress(one.name, one.name, one.type, *one.address))
    process.run_or_exit(uvloop.run, serve(settings, specs, addresses))


def _specs(manifests: tuple[str, ...], settings: RouterSettings) -> list[ServedSpec]:
    """A service that declares no dispatch is served by the defaults: whoever names its instances wants that."""
    default = DispatchSpec(ports=DispatchPorts(http=80))
    return [
        ServedSpec(facts, service.spec.dispatch or default)
        for service, facts in services_of(manifests, settings.max_slowdown)
    ]


async def serve(
    settings: RouterSettings, specs: Sequence[ServedSpec], instances: dict[Key, list[InstanceAddress]]
) -> None:
    """Runs until SIGTERM or SIGINT."""
    garbage.relax()
    stop = asyncio.Event()
    process.stop_on_signals(stop)
    namespaces = tuple(sorted({spec.facts.namespace for spec in specs}))
    router = Router(settings, namespaces)
    router.declare(specs)
    router.stand(instances)
    router.front.is_ready = True
    await router.run(stop)
