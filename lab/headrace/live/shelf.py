# SPDX-License-Identifier: Apache-2.0
"""A folder of bundles, served: a list with a search, comparisons, and the reports themselves."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, BinaryIO

from fastapi.responses import HTMLResponse, PlainTextResponse, StreamingResponse

from headrace.analyse.diff import diff
from headrace.errors import HeadraceError
from headrace.live.bundles import Folder
from headrace.live.library import comparison, listing
from headrace.record.bundle import BundleError
from headrace.report.html import Served, render

_VIEWS = (("Runs", "/"),)
_PIECE = 1 << 16
MOST_WORDS = 16  # that are searched for at once: each of a thousand costs as much as all before it


def routes(folder: Folder) -> dict[str, Any]:
    """Names of bundles are looked up among the folder's own: no path is made of them. One page is
    made at a time, however many are asked for: the machine may be measuring."""
    turn = threading.Lock()

    def runs(q: str = "") -> Any:
        if (count := len(q.split())) > MOST_WORDS:
            return PlainTextResponse(f"q: {count} words; allowed: {MOST_WORDS}", status_code=422)
        with turn:
            return HTMLResponse(render(listing(folder, q), Served(views=_VIEWS, search=q)))

    def report(name: str) -> Any:
        bundle = folder.bundle(name)
        if bundle is None:
            return _missing(name, folder)
        try:
            page = folder.report(bundle)
        except BundleError as error:
            return PlainTextResponse(str(error), status_code=422)
        if page is None:
            return PlainTextResponse(f"{name}: has no report yet", status_code=404)
        return StreamingResponse(_pieces(page), media_type="text/html")

    def compare(a: str, b: str) -> Any:
        left, right = folder.bundle(a), folder.bundle(b)
        if left is None or right is None:
            return _missing(b if right is None else a, folder)
        try:
            with turn:
                page = render(
                    comparison(diff(left, right), a, b), Served(view="compare", views=_VIEWS)
                )
        except HeadraceError as error:
            return PlainTextResponse(str(error), status_code=422)
        return HTMLResponse(page)

    return {"/": runs, "/report/{name}": report, "/compare": compare}


def _pieces(page: BinaryIO) -> Iterator[bytes]:
    with page:
        while piece := page.read(_PIECE):
            yield piece


def _missing(name: str, folder: Folder) -> Any:
    return PlainTextResponse(f"{name}: no bundle of {folder.path}", status_code=404)
