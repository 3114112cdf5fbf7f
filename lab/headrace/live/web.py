# SPDX-License-Identifier: Apache-2.0
"""The one HTTP server: a thread of its own on a socket that is bound before anything is started.

Who can reach the socket sees the pages; nobody can change anything. A page of another site that has
its own name resolved to this address (DNS rebinding) is turned away by the Host that it names.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import uvicorn
from fastapi import Depends, FastAPI, HTTPException, Request

from headrace.errors import HeadraceError, bad_value
from headrace.live import connections
from headrace.live.connections import Connection

PORT = 8470
HOST = "127.0.0.1"
ANY = "any"  # instead of an address: the usual port, or a free one where that is taken
STOP_S = 2.0  # for browsers' connections to end

_ADDRESS = re.compile(r"(?:(?P<host>[^\s:]*|\[[0-9a-fA-F:.]+\]):)?(?P<port>\d+)")
# All that a page needs is in it; frames and forms are not.
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; "
        "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def bound(address: str, place: str) -> socket.socket:
    """`address`: [HOST]:PORT, or ANY; `place` is what errors name."""
    if address == ANY:
        try:
            return _listening(HOST, PORT)
        except OSError:
            return _listening(HOST, 0)
    parts = _ADDRESS.fullmatch(address)
    if parts is None or int(parts["port"]) > 65535:
        raise bad_value(place, address, "[HOST]:PORT, as :8470, or :0 for any free port")
    host = (parts["host"] or HOST).strip("[]")
    try:
        return _listening(host, int(parts["port"]))
    except OSError as error:
        raise bad_value(
            place, address, "an address of this machine with a free port; :0 takes any",
            f"cannot listen there: {(error.strerror or str(error)).lower()}",
        ) from None  # fmt: skip


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)


def url_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def may_ask(host: str) -> bool:
    """An address, localhost or this machine's name: no other site's name leads here by chance."""
    name = host.rpartition(":")[0] if re.search(r":\d+$", host) else host
    if name.lower() in ("localhost", socket.gethostname().lower(), socket.getfqdn().lower()):
        return True
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def application(routes: dict[str, Callable[..., Any]]) -> Any:
    """GET only; each route's function is FastAPI's."""
    app = FastAPI(dependencies=[Depends(_checked)], docs_url=None, redoc_url=None, openapi_url=None)
    for path, answer in routes.items():
        app.add_api_route(path, answer, methods=["GET"], response_model=None)
    return app


def _checked(request: Request) -> None:
    if not may_ask(request.headers.get("host", "")):
        raise HTTPException(421, "Host: allowed: an address, localhost, this machine's name")


class Serving:
    """Serves until it is left. Nothing of it remains then: neither the port nor the thread."""

    def __init__(self, app: Any, listening: socket.socket) -> None:
        self._app, self.listening = app, listening
        self.loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-http", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._up.wait()
        if self.loop is None:
            self._thread.join()
            raise HeadraceError("the page's server did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None
    ) -> None:
        if self.loop is not None and self._stop is not None:
            self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self.listening.close()

    def wait(self) -> None:
        """Waits for an interrupt."""
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        finally:
            self._up.set()

    async def _serve(self) -> None:
        """Uvicorn's own loop would wake up ten times a second, on machines where that costs
        packets: this one sleeps until it is told to end."""
        config = uvicorn.Config(
            self._app, http=Connection, backlog=connections.MOST, lifespan="off",
            log_config=None, access_log=False, date_header=False,
            server_header=False, timeout_graceful_shutdown=int(STOP_S),
            headers=list(HEADERS.items()),
        )  # fmt: skip
        config.load()
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        self._stop = asyncio.Event()
        await server.startup(sockets=[self.listening])
        self.loop = asyncio.get_running_loop()
        self._up.set()
        await self._stop.wait()
        server.should_exit = True
        await server.shutdown(sockets=[self.listening])
