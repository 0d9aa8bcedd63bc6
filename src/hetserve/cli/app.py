"""The group of commands; what a command needs is imported when it runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from hetserve import __version__
from hetserve.cli.compare import compare
from hetserve.cli.gpus import gpus
from hetserve.cli.placement import placement
from hetserve.cli.plan import plan
from hetserve.cli.problems import refuse
from hetserve.cli.profile import profile
from hetserve.cli.queue import queue
from hetserve.cli.reference import reference
from hetserve.cli.search import search
from hetserve.cli.simulate import simulate
from hetserve.cli.why import why


class _OneLineErrors(click.Group):
    """A bad option is one line that begins with `error:`, as a bad file is; click's would be three."""

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _told():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _told():
            return super().invoke(ctx)


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        refuse(" ".join(error.format_message().split()))


@click.group(cls=_OneLineErrors, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, message="hetserve %(version)s")
def app() -> None:
    """Plans, places and explains model services on heterogeneous clusters."""


app.add_command(placement)
app.add_command(plan)
app.add_command(compare)
app.add_command(gpus)
app.add_command(profile)
app.add_command(queue)
app.add_command(reference)
app.add_command(search)
app.add_command(simulate)
app.add_command(why)
