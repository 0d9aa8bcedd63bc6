"""The twin's process: command line, settings, traces, connections, shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from hetserve.base.csv_rows import CsvError
from hetserve.base.files import UnreadableError
from hetserve.demand import parse_batches
from hetserve.demand.trace import read_trace
from hetserve.profiles.latency_factors import factor_of
from hetserve_services.facts import Key
from hetserve_shell import process
from hetserve_shell.kube.client import api_clients
from hetserve_shell.tasks import garbage
from hetserve_twin.engine import TracedLoad
from hetserve_twin.settings import LoadSettings, TwinSettings
from hetserve_twin.twin import Twin

EXIT_BAD_INPUT: Final = 2


class BadInputError(click.ClickException):
    """A file that a flag or a setting names is wrong."""

    exit_code = EXIT_BAD_INPUT


@click.command()
@process.config_option
@process.kubeconfig_option
@click.option("--load", "loads", multiple=True, metavar="NAMESPACE/SERVICE=CSV", help="A service's load trace.")
@click.option("--latency-factor", multiple=True, metavar="[TYPE=]FACTOR", help="Real service times / the profiles'.")
@click.option("--speed", type=float, help="Seconds of a trace in a second; rates stay as they are.")
@click.option("--seed", type=int, help="Of arrivals, batch sizes and service times.")
@click.option("--policy", help="The dispatch policy of services without spec.dispatch.")
@click.option("--host", help="Address of the port.")
@click.option("--port", type=int, help="Port of health and metrics.")
@process.probe_authorization_option
@process.log_level_option
@click.version_option(package_name="hetserve")
def main(config_path: Path | None, kubeconfig: Path | None, **flags: Any) -> None:
    """Load twin of hetserve: plays load traces against the instances that are Ready, and measures as a router would."""
    given = {name: value or None for name, value in flags.items() if isinstance(value, tuple)}
    settings = process.settings_or_exit(TwinSettings, config_path, {**flags, **given})
    loads = read_loads(settings)
    process.log_to_stderr(settings.log_level)
    process.run_or_exit(asyncio.run, serve(settings, loads, kubeconfig))


def read_loads(settings: TwinSettings) -> dict[Key, TracedLoad]:
    """Loads with their traces, by service. Raises BadInputError for a trace or a mix that cannot be read."""
    try:
        return {(one.namespace, one.service): _load(one, settings.latency_factor) for one in settings.loads}
    except (CsvError, UnreadableError, ValueError) as error:
        raise BadInputError(str(error)) from None


def _load(one: LoadSettings, general: Mapping[str, float]) -> TracedLoad:
    own = one.latency_factor
    factors = {kind: factor_of(general, kind) * factor_of(own, kind) for kind in general.keys() | own.keys()}
    mix = parse_batches(one.batches) if one.batches else None
    return TracedLoad(read_trace(one.trace, bad_samples="refused"), factors, mix)


async def serve(settings: TwinSettings, loads: Mapping[Key, TracedLoad], kubeconfig: Path | None) -> None:
    """Runs until SIGTERM or SIGINT. Raises the error that ends any part."""
    garbage.relax()
    stop = asyncio.Event()
    process.stop_on_signals(stop)
    async with api_clients(kubeconfig, "hetserve-twin") as (api, _, review_api):
        await Twin(settings, loads, api, review_api=review_api).run(stop)
