"""`hetserve completion`: completes commands and options in a shell."""

from __future__ import annotations

import click

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
