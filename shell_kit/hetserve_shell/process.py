"""A component's process: common flags, logging, errors of the start, signals."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

import click
from kubernetes.aio.config import ConfigException

from hetserve_shell.logs import BoundedHandler
from hetserve_shell.settings import LogLevel, ProbeAuthorization, SettingsError, SettingsModel, load_settings

Settings = TypeVar("Settings", bound=SettingsModel)

config_option = click.option("--config", "config_path", type=click.Path(path_type=Path), help="Settings file (YAML).")
kubeconfig_option = click.option(
    "--kubeconfig", type=click.Path(path_type=Path), help="Default: the account of our own pod."
)
probe_authorization_option = click.option(
    "--probe-authorization",
    type=click.Choice(get_args(ProbeAuthorization)),
    help="Who reads more than health: whom the API server lets, or (none) everybody who reaches the port.",
)
log_level_option = click.option("--log-level", type=click.Choice(get_args(LogLevel)))


def settings_or_exit(model: type[Settings], path: Path | None, flags: Mapping[str, Any]) -> Settings:
    """Settings of the file with the flags on top; exits with the message if they are invalid."""
    try:
        return load_settings(model, path, flags)
    except SettingsError as error:
        raise click.ClickException(str(error)) from None


def log_to_stderr(level: LogLevel) -> None:
    """Logs to stderr, with repeats bounded."""
    logging.basicConfig(
        handlers=[BoundedHandler(sys.stderr)],
        level=level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )


def run_or_exit(run: Callable[[Coroutine[Any, Any, None]], None], serving: Coroutine[Any, Any, None]) -> None:
    """Runs a component; exits with the message if it has no credentials or no port."""
    try:
        run(serving)
    except (ConfigException, OSError) as error:
        raise click.ClickException(str(error)) from None


def stop_on_signals(stop: asyncio.Event) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
