"""The worker's process: command line, addresses, shutdown."""

from __future__ import annotations

import asyncio
import logging
import re
import selectors
import signal
from collections.abc import Sequence
from select import select
from typing import Any, Final

import click

from hetserve.api.manifests import read_manifests
from hetserve.base.files import InputError
from hetserve.profiles import profile_from_spec
from hetserve.profiles.latency_factors import EVERY_TYPE, latency_factor
from hetserve_shell.http.limits import ServerLimits
from hetserve_shell.http.server import HttpServer, listen, raise_limit
from hetserve_worker.instance import FAULTS, MOST_BYTES, Instance
from hetserve_worker.models import MODELS
from hetserve_worker.service_times import ServiceTimes

log = logging.getLogger(__name__)

LIMITS: Final = ServerLimits(body=MOST_BYTES, bodies=4 * MOST_BYTES, uploading=50.0)
DRAIN_WITHIN: Final = 30.0
"""Seconds for the queries that have come, when the process ends."""
Address = tuple[str, int]


class PreciseSelector(selectors.DefaultSelector):
    """Waits with microseconds; epoll rounds up to milliseconds, which every query would take longer."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout > 0:
            select([self.fileno()], [], [], timeout)
            timeout = 0
        return super().select(timeout)


def _address(text: str) -> Address:
    found = re.fullmatch(r"\[?([^\[\]]+)\]?:(\d{1,5})", text, re.ASCII)
    if found is None or int(found[2]) > 65535:
        raise click.BadParameter(f"{text!r} must be HOST:PORT, for example 127.0.0.1:9000 or [::1]:0")
    return found[1], int(found[2])


def _times(profile: str | None, instance_type: str | None, seed: int, factor: str | None) -> ServiceTimes | None:
    """Raises UsageError for half of what it needs, and for a file without a profile of the type."""
    if profile is None or instance_type is None:
        if profile or instance_type or factor:
            raise click.UsageError("--profile and --instance-type go together, and --latency-factor with them")
        return None
    try:
        stretch = latency_factor(EVERY_TYPE, factor or "1")
        specs = [one.spec for one in read_manifests([profile]).profiles]
    except (InputError, ValueError) as error:
        raise click.UsageError(str(error)) from None
    found = [spec for spec in specs if spec.instance_type == instance_type]
    if len(found) != 1:
        there = ", ".join(f"{spec.model} on {spec.instance_type}" for spec in specs) or "none"
        raise click.UsageError(f"{profile}: {len(found)} profiles of {instance_type}, must be one; there are: {there}")
    try:
        return ServiceTimes(profile_from_spec(found[0]), seed, stretch)
    except ValueError as error:
        raise click.UsageError(f"{profile}: {error}; a worker serves one: keep it alone in spec.variants") from None


@click.command()
@click.option("--model", required=True, type=click.Choice(tuple(MODELS)), help="What answers.")
@click.option("--name", help="The model's name in paths; default: that of --model.")
@click.option("--listen", "addresses", required=True, multiple=True, metavar="HOST:PORT", type=_address,
              help="Address of an instance; once for each. Port 0: the system chooses.")  # fmt: skip
@click.option("--profile", metavar="FILE", help="ModelProfiles; a query is held as long as the simulator draws.")
@click.option("--instance-type", metavar="TYPE", help="Whose profile counts.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the draws.")
@click.option("--latency-factor", "factor", metavar="FACTOR", help="Real times / the profile's; default: 1.")
@click.option("--fault", type=click.Choice(FAULTS), help="What all instances play, for tests.")
@click.version_option(package_name="hetserve")
def main(model: str, name: str | None, addresses: list[Address], fault: str | None, **timing: Any) -> None:
    """Reference worker of hetserve: instances that serve a small model by the Open Inference Protocol v2.

    Each address serves one query at a time. The header x-request-id, or else the body's id, says which: k takes as long
    as query k of `hetserve simulate --seed`.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    times, served = _times(**timing), MODELS[model]()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(PreciseSelector())) as runner:
        try:
            runner.run(serve([(each, Instance(name or model, served, times, fault or "")) for each in addresses]))
        except OSError as error:
            raise click.ClickException(str(error)) from None


async def serve(instances: Sequence[tuple[Address, Instance]]) -> None:
    """Serves until SIGTERM or SIGINT, and then what has come. Raises OSError for an address that is not free."""
    raise_limit()
    stop, servers = asyncio.Event(), []
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    for address, instance in instances:
        listener, server = listen(*address), HttpServer(instance, LIMITS, "worker")
        log.info("%s on %s:%d", instance.name, *listener.getsockname()[:2])
        await server.start(listener)
        servers.append(server)
    await stop.wait()
    await asyncio.gather(*(server.stop(DRAIN_WITHIN) for server in servers))
