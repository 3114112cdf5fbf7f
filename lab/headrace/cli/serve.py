# SPDX-License-Identifier: Apache-2.0
"""headrace serve: the bundles of a folder in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli._console import stdout


def serve(
    folder: Annotated[
        Path, typer.Argument(help="A folder with bundles; runs/ where `headrace run` puts them.")
    ] = Path("runs"),
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="[HOST]:PORT", help="Where to listen; 127.0.0.1 unless HOST is given."
        ),
    ] = None,
) -> None:
    """Show a folder's bundles: trends, comparisons, a search, and every report; until Ctrl-C."""
    from headrace.live.bundles import Folder
    from headrace.live.shelf import routes
    from headrace.live.web import ANY, Serving, application, bound, url_of

    app = application(routes(Folder(folder)))
    listening = bound(at or ANY, "--at")
    with Serving(app, listening) as serving:
        stdout().print(f"{folder}: {url_of(listening)}", markup=False, soft_wrap=True)
        serving.wait()
