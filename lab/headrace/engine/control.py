# SPDX-License-Identifier: Apache-2.0
"""Client of the engine's control socket: one JSON object per line each way."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError


class ControlError(HeadraceError):
    """The engine refused a request. `path` is the place in the request or plan."""

    def __init__(self, cmd: str, path: str, msg: str) -> None:
        super().__init__(f"engine: {cmd}: {path + ': ' if path else ''}{msg}")
        self.path, self.msg = path, msg


class ControlLost(HeadraceError):
    """The socket was closed or does not answer."""


# Pollers and whatever else the machine does leave the engine's control thread little time. Nobody
# waits for an engine that is dead, as its socket is closed then: this is for one that hangs.
ANSWER_S = 300.0


class Control:
    def __init__(self, to: Path | socket.socket, timeout_s: float = ANSWER_S) -> None:
        """`to`: where the engine listens, or what leads to it already."""
        self._timeout_s = timeout_s
        self._socket = to if isinstance(to, socket.socket) else _connected(to, timeout_s)
        self._socket.settimeout(timeout_s)
        self._reader = self._socket.makefile("rb")

    def request(self, cmd: str, **arguments: Any) -> dict[str, Any]:
        self.send(cmd, **arguments)
        return self.receive(cmd)

    def send(self, cmd: str, **arguments: Any) -> None:
        """Without waiting for the answer: several engines can be asked at once."""
        line = json.dumps({"cmd": cmd, **arguments}) + "\n"
        try:
            self._socket.sendall(line.encode())
        except TimeoutError:
            raise self._silent(cmd) from None
        except OSError as error:
            raise ControlLost(f"engine: control socket: {error.strerror or error}") from None

    def _silent(self, cmd: str) -> ControlLost:
        return ControlLost(f"engine: no answer to {cmd!r} within {self._timeout_s:g} s")

    def receive(self, cmd: str) -> dict[str, Any]:
        try:
            answer = self._reader.readline()
        except TimeoutError:
            raise self._silent(cmd) from None
        except OSError as error:
            raise ControlLost(f"engine: control socket: {error.strerror or error}") from None
        if not answer.endswith(b"\n"):
            raise ControlLost(f"engine: closed the control socket during {cmd!r}")
        try:
            reply: dict[str, Any] = json.loads(answer)
        except json.JSONDecodeError as error:
            raise ControlLost(f"engine: answer to {cmd!r} is not JSON: {error}") from None
        if not reply.get("ok"):
            error_object = reply.get("error") or {}
            raise ControlError(cmd, error_object.get("path", ""), error_object.get("msg", "?"))
        return reply

    def close(self) -> None:
        self._reader.close()
        self._socket.close()


def _connected(path: Path, timeout_s: float) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.settimeout(timeout_s)
    try:
        made.connect(str(path))
    except OSError:
        made.close()
        raise
    return made
