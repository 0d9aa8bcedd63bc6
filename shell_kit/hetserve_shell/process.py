"""A component's process: common flags, logging, errors of the start, signals."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TextIO, TypeVar, get_args

import click
from kubernetes.aio.config import ConfigException

from hetserve_shell.settings import LogLevel, ProbeAuthorization, SettingsError, SettingsModel, load_settings

AT_MOST: Final = 20
"""Lines of one kind in an interval."""
INTERVAL: Final = 10.0  # seconds
KINDS: Final = 50
"""Kinds in an interval; more share one."""
_OTHERS: Final = "other messages"
_WORDS: Final = 100

Kind = tuple[str, int, str]
"""Logger, level and start of the message before its arguments, which clients may choose."""


@dataclass(slots=True)
class Repeats:
    """Selects the records to write, by kind. clock: monotonic [s]."""

    clock: Callable[[], float] = time.monotonic
    _since: float = 0.0
    _counts: dict[Kind, int] = field(default_factory=dict)

    def take(self, logger: str, level: int, message: str) -> bool:
        """Whether to write one more of this kind; call `over` first."""
        kind = (logger, level, message.partition("\n")[0][:_WORDS])
        if kind not in self._counts and len(self._counts) >= KINDS:
            kind = (logger, level, _OTHERS)
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        return count <= AT_MOST

    def over(self) -> dict[Kind, int]:
        """After an interval: the number left out by kind. Starts the next one."""
        now = self.clock()
        if now - self._since < INTERVAL:
            return {}
        self._since = now
        return self.left_out()

    def left_out(self) -> dict[Kind, int]:
        """The number left out by kind so far; resets it."""
        counts, self._counts = self._counts, {}
        return {kind: count - AT_MOST for kind, count in counts.items() if count > AT_MOST}


class BoundedHandler(logging.StreamHandler[TextIO]):
    """Writes at most AT_MOST warnings or errors of one kind in INTERVAL seconds, then how many it left out.

    That line follows with the next record or at the end.
    """

    def __init__(self, stream: TextIO, repeats: Repeats | None = None) -> None:
        super().__init__(stream)
        self._repeats = repeats or Repeats()

    def emit(self, record: logging.LogRecord) -> None:
        self._tell(self._repeats.over())
        if record.levelno < logging.WARNING or self._repeats.take(record.name, record.levelno, str(record.msg)):
            super().emit(record)

    def close(self) -> None:
        self.acquire()
        try:
            self._tell(self._repeats.left_out())
        finally:
            self.release()
        super().close()

    def _tell(self, left_out: dict[Kind, int]) -> None:
        for (name, level, message), count in left_out.items():
            text = f"{count} more like this were left out: {message}"
            super().emit(logging.LogRecord(name, level, "", 0, text, None, None))


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
