"""The command group, which imports a command when it runs, and completion in shells."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

import click
from click.shell_completion import ShellComplete

from hetserve import __version__
from hetserve.base.files import InputError
from hetserve.cli.output import streams
from hetserve.extras import EXIT_MISSING, install_hint

PLUGIN: Final = "kubectl hetserve"
_NOTHING, _DIRECTIVES = 4, {"file": 0, "dir": 16}
"""What kubectl's shell does beside the words, in the numbers of cobra (ShellCompDirective)."""
COMMANDS: Final = {
    "autoscale": "capacity.commands",
    "compare": "capacity.commands",
    "completion": "app",
    "decision": "decisions.commands",
    "doctor": "health.commands",
    "explain": "decisions.commands",
    "gpus": "placement.commands",
    "placement": "placement.commands",
    "plan": "capacity.commands",
    "profile": "profiles.commands",
    "queue": "placement.commands",
    "reference": "profiles.commands",
    "search": "capacity.commands",
    "simulate": "capacity.commands",
    "train": "capacity.commands",
    "wait": "health.commands",
    "why": "placement.commands",
}
"""Module of each command below `hetserve.cli`; the function has the command's name."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  signature of click
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        found = getattr(import_module(f"hetserve.cli.{COMMANDS[cmd_name]}"), cmd_name)
        assert isinstance(found, click.Command)  # noqa: S101  a test loads every command
        return found

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _errors_as_messages():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _errors_as_messages():
            return super().invoke(ctx)


@contextmanager
def _errors_as_messages() -> Iterator[None]:
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        streams.error(" ".join(error.format_message().split()))
        sys.exit(error.exit_code)
    except click.ClickException as error:
        streams.error(error.format_message())
        sys.exit(error.exit_code)
    except InputError as error:
        streams.refuse(*error.errors)
    except ModuleNotFoundError as error:
        hint = install_hint(error)
        if hint is None:
            raise
        streams.error(hint)
        sys.exit(EXIT_MISSING)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, message="hetserve %(version)s")
def app() -> None:
    """Plans, places and explains model services on heterogeneous clusters."""


def completions(arguments: Sequence[str]) -> str:
    """Lines for kubectl: a word and its help each, then the directive.

    arguments: words after `kubectl hetserve`; the last is the one to complete, perhaps empty.
    """
    *before, begun = arguments or ("",)
    found = ShellComplete(app, {}, PLUGIN, "").get_completions(list(before), begun)
    words = [f"{item.value}\t{' '.join((item.help or '').split())}".rstrip() for item in found if item.type == "plain"]
    directive = min((_DIRECTIVES[item.type] for item in found if item.type != "plain"), default=_NOTHING)
    return "\n".join([*words, f":{directive}"]) + "\n"


_PROGRAM = "hetserve"
_VARIABLE = "_HETSERVE_COMPLETE"
"""By which click knows that a shell asks; derived from the program's name."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Write the script that completes `hetserve` in SHELL.

    `kubectl hetserve` needs none: where kubectl itself is completed it asks kubectl_complete-hetserve, which is
    installed beside hetserve.

    Exit code: 0 written, 2 bad input.

    \b
    Examples:
      source <(hetserve completion bash)
      hetserve completion zsh > "${fpath[1]}/_hetserve"
      hetserve completion fish > ~/.config/fish/completions/hetserve.fish
    """
    from click.shell_completion import get_completion_class  # noqa: PLC0415

    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101  click knows the shells named above
    written = kind(click.get_current_context().find_root().command, {}, _PROGRAM, _VARIABLE)
    # Not `source()`, which runs bash to ask for its version.
    click.echo(written.source_template % written.source_vars())
