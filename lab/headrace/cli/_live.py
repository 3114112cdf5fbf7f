# SPDX-License-Identifier: Apache-2.0
"""`--live`: a run's page, for as long as it measures."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

# Every command reads this module, to say `--live` of its arguments: what measures is loaded by
# those alone that do.
if TYPE_CHECKING:
    from headrace.measure.observer import Observer

OPTION = "--live"
Address = Annotated[
    str | None,
    typer.Option(
        OPTION,
        metavar="[[HOST]:PORT]",
        help="Serve a page that shows the run as it goes, and /metrics for Prometheus; "
        "on 127.0.0.1 unless HOST says otherwise.",
    ),
]
_ADDRESS = re.compile(r"(\S*:)?\d+")


def with_address(arguments: Sequence[str]) -> list[str]:
    """The option may stand without its value, which typer does not know."""
    given = list(arguments)
    for i, one in enumerate(given):
        value = given[i + 1] if i + 1 < len(given) else ""
        if one == OPTION and not _ADDRESS.fullmatch(value):
            given[i] = f"{OPTION}=any"
    return given


def listen(address: str | None) -> socket.socket | None:
    """Is called before anything is made: an address that cannot be had is bad input."""
    if address is None:
        return None
    from headrace.live.web import bound  # a web server: half a second to load

    return bound(address, OPTION)


@contextlib.contextmanager
def watched(
    listening: socket.socket | None, study: str, bundle: Path, console: Console
) -> Iterator[Observer]:
    """Without a socket nobody looks on."""
    if listening is None:
        from headrace.measure.observer import Observer

        yield Observer()
        return
    from headrace.live.broadcast import live
    from headrace.live.scene import Onlooker

    onlooker = Onlooker(study, str(bundle))
    with live(onlooker, listening) as url:
        console.print(f"live: {url}", markup=False, soft_wrap=True)
        try:
            yield onlooker
        except KeyboardInterrupt:
            onlooker.end(f"The run was interrupted; what was measured is in {bundle}.")
            raise
        except SystemExit:  # rich's, when what reads the progress has gone
            onlooker.end(f"The run was broken off; what was measured is in {bundle}.")
            raise
        except BaseException as error:
            onlooker.end(f"The run has failed: {error}")
            raise
        onlooker.end(f"The run has ended; its report is in {bundle}.")
