# SPDX-License-Identifier: Apache-2.0
"""A run's pages and their frames, one a second, made once for all who watch the same view."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from fastapi.responses import (
    FileResponse,
    HTMLResponse,
    PlainTextResponse,
    StreamingResponse,
)

from headrace.live import metrics
from headrace.live.pages import VIEWS
from headrace.live.scene import Onlooker, Scene
from headrace.live.web import Serving, application, url_of
from headrace.report.charts.svg import WIDTHS
from headrace.report.html import Served, render

PERIOD_S = 1.0
FRESH_S = 1.5  # a page that is asked for later than this after a look has one of its own
LAST_S = 5.0  # for the last frame
AGAIN_S = 0.5  # who asks oftener gets the same: what is drawn takes time of the lab that measures
FOLLOW = Path(__file__).with_name("follow.js")
DASHBOARD = Path(__file__).with_name("dashboard.json")  # for Grafana

_PARTS = re.compile(r"<header>(.*?)</header>\s*<main>(.*?)</main>", re.DOTALL)
_VIEWS = tuple((view.title, f"/{name}") for name, view in VIEWS.items())

Seen = tuple[str, int | None]  # a view, and which width of its pictures; None: all of them


class Broadcast:
    """Nobody watches: nothing is read of the run, and nothing is drawn."""

    def __init__(self, onlooker: Onlooker) -> None:
        self._onlooker = onlooker
        self._closed = self._done = False  # done: the last frames are there
        self._frames: dict[Seen, str] = {}  # of this tick
        self._tick = asyncio.Condition()
        self._watchers: dict[Seen, int] = {}
        self._ticking: asyncio.Task[None] | None = None
        self._given: dict[str, tuple[float, str]] = {}  # pages and metrics, and when
        self._giving = asyncio.Lock()
        # Templates are compiled now: once lcores poll, their milliseconds become seconds.
        self._render(("", None), onlooker.scene)

    def routes(self) -> dict[str, Any]:
        async def page(view: str = "") -> Any:
            if view not in VIEWS:
                return PlainTextResponse(f"/{view}: allowed: {', '.join(VIEWS)}", status_code=404)
            return HTMLResponse(await self._once(f"/{view}", partial(self._page, view)))

        async def events(view: str = "", fit: int | None = None) -> Any:
            if view not in VIEWS or (fit is not None and fit not in range(len(WIDTHS))):
                allowed = f"view: {', '.join(VIEWS)}; fit: 0 to {len(WIDTHS) - 1}"
                return PlainTextResponse(f"events: allowed: {allowed}", status_code=404)
            return StreamingResponse(self._events((view, fit)), media_type="text/event-stream")

        async def exposed() -> Any:
            make = partial(asyncio.to_thread, metrics.exposition, self._onlooker)
            text = await self._once("metrics", make)
            return PlainTextResponse(text, media_type=metrics.CONTENT_TYPE)

        async def script() -> Any:
            return FileResponse(FOLLOW, media_type="text/javascript")

        async def dashboard() -> Any:
            return FileResponse(DASHBOARD, media_type="application/json")

        return {
            "/": page, "/events": events, "/metrics": exposed, "/follow.js": script,
            "/dashboard.json": dashboard, "/{view}": page,
        }  # fmt: skip

    async def close(self) -> None:
        """The last frame; then nobody is sent anything more."""
        self._closed = True
        self._given.clear()
        await self._send(self._onlooker.scene, last=True)

    async def _once(self, name: str, make: Callable[[], Awaitable[str]]) -> str:
        """However many ask for it at a time, and how often each."""
        async with self._giving:
            since, text = self._given.get(name, (-AGAIN_S, ""))
            if self._onlooker.seconds - since >= AGAIN_S:
                text = await make()
                self._given[name] = self._onlooker.seconds, text
            return text

    async def _page(self, view: str) -> str:
        scene = self._onlooker.scene
        if not scene.unseen and self._onlooker.seconds - scene.moment_s > FRESH_S:
            scene = await asyncio.to_thread(self._onlooker.look)
        return await asyncio.to_thread(self._render, (view, None), scene)

    def _render(self, seen: Seen, scene: Scene) -> str:
        view, fit = seen
        document = VIEWS[view].document(scene, self._onlooker.seconds)
        return render(document, Served("/follow.js", fit, view, views=_VIEWS))

    async def _events(self, seen: Seen) -> AsyncIterator[str]:
        self._watchers[seen] = self._watchers.get(seen, 0) + 1
        if self._ticking is None:
            self._ticking = asyncio.create_task(self._go())
        try:
            sent, done = "", False
            while not done:
                async with self._tick:
                    await self._tick.wait_for(partial(self._news, seen, sent))
                    frame, done = self._frames.get(seen, ""), self._done
                if not frame and not sent:  # it came after the last frames were drawn
                    frame = await asyncio.to_thread(self._frame, seen, self._onlooker.scene)
                if frame and frame != sent:
                    sent = frame
                    yield f"event: frame\ndata: {frame}\n\n"
        finally:
            self._watchers[seen] -= 1

    def _news(self, seen: Seen, sent: str) -> bool:
        return self._done or self._frames.get(seen, sent) != sent

    async def _go(self) -> None:
        """Ends with the last who watches."""
        loop = asyncio.get_running_loop()
        try:
            due = loop.time()
            while any(self._watchers.values()) and not self._closed:
                await self._send(await asyncio.to_thread(self._onlooker.look))
                due = max(due + PERIOD_S, loop.time())
                await asyncio.sleep(due - loop.time())
        finally:
            self._ticking = None

    async def _send(self, scene: Scene, last: bool = False) -> None:
        wanted = [seen for seen, count in self._watchers.items() if count]
        frames = await asyncio.to_thread(
            lambda: {seen: self._frame(seen, scene) for seen in wanted}
        )
        async with self._tick:
            if not self._done:
                self._frames, self._done = frames, last
            self._tick.notify_all()

    def _frame(self, seen: Seen, scene: Scene) -> str:
        parts = _PARTS.search(self._render(seen, scene))
        assert parts is not None, "the page's template has a header and a main part"
        return json.dumps({"header": parts[1], "main": parts[2], "ended": bool(scene.ended)})


@contextlib.contextmanager
def live(onlooker: Onlooker, listening: socket.socket) -> Iterator[str]:
    """The address, while it is served."""
    broadcast = Broadcast(onlooker)
    with Serving(application(broadcast.routes()), listening) as serving:
        try:
            yield url_of(listening)
        finally:
            assert serving.loop is not None
            last = asyncio.run_coroutine_threadsafe(broadcast.close(), serving.loop)
            with contextlib.suppress(TimeoutError):
                last.result(LAST_S)
