# SPDX-License-Identifier: Apache-2.0
"""Client of the engine's control socket: one JSON object per line each way."""

from __future__ import annotations

import contextlib
import json
import math
import select
import socket
import time
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from headrace.errors import HeadraceError
from headrace.host.sockets import bytes_of
from headrace.host.tool import printable
from headrace.record.frozen import Record

Answer = TypeVar("Answer", bound=Record)


class ControlError(HeadraceError):
    """The engine refused a request. `path` is the place in the request or plan."""

    def __init__(self, cmd: str, path: str, msg: str) -> None:
        path, msg = printable(path), printable(msg)  # a VNF's may be meant for the terminal
        super().__init__(f"engine: {cmd}: {path + ': ' if path else ''}{msg}")
        self.path, self.msg = path, msg


class ControlLost(HeadraceError):
    """The socket was closed or does not answer."""


# Pollers and whatever else the machine does leave the engine's control thread little time. Nobody
# waits for an engine that is dead, as its socket is closed then: this is for one that hangs, or
# that sends a byte now and then.
ANSWER_S = 300.0
_ANSWER_MOST = 64 << 20  # bytes; an engine may be a VNF's
_CHUNK_BYTES = 1 << 18


class Control:
    def __init__(self, to: Path | socket.socket, timeout_s: float = ANSWER_S) -> None:
        """`to`: where the engine listens, or what leads to it already."""
        self._timeout_s = timeout_s
        self._socket = to if isinstance(to, socket.socket) else _connected(to, timeout_s)
        self._socket.settimeout(timeout_s)
        self._answers = bytes_of(self._socket)
        self._said = bytearray()  # beyond the last answer

    def request(self, cmd: str, **arguments: Any) -> dict[str, Any]:
        self.send(cmd, **arguments)
        return self.receive(cmd)

    def send(self, cmd: str, **arguments: Any) -> None:
        """Does not wait for the answer: several engines can be asked at once."""
        line = json.dumps({"cmd": cmd, **arguments}) + "\n"
        try:
            self._socket.sendall(line.encode())
        except TimeoutError:
            raise self._silent(cmd) from None
        except OSError as error:
            raise ControlLost(f"engine: control socket: {error.strerror or error}") from None

    def _silent(self, cmd: str) -> ControlLost:
        return ControlLost(f"engine: no answer to {cmd!r} within {self._timeout_s:g} s")

    def receive_as(self, cmd: str, kind: type[Answer]) -> Answer:
        """The answer in its form: from its text, which takes no longer than parsing it."""
        line = self.line(cmd)
        try:
            return kind.model_validate_json(line)
        except ValidationError as error:
            _parsed(cmd, line)  # the engine refused
            first = error.errors()[0]
            place = printable(".".join(map(str, first["loc"])))
            why = (
                f"engine: answer to {cmd!r} is not as expected: {place}: {printable(first['msg'])}"
            )
            raise HeadraceError(why) from None

    def receive(self, cmd: str) -> dict[str, Any]:
        return _parsed(cmd, self.line(cmd))

    def answered(self, within_s: float) -> bool:
        """Whether something was sent to us; waits so long for it."""
        return bool(self._said or select.select([self._answers], [], [], within_s)[0])

    def line(self, cmd: str) -> bytes:
        """An answer as it came."""
        deadline = time.monotonic() + self._timeout_s
        seen = 0
        while (end := self._said.find(b"\n", seen)) < 0:
            seen = len(self._said)
            if seen >= _ANSWER_MOST:
                raise ControlLost(f"engine: answer to {cmd!r} is longer than {_ANSWER_MOST} bytes")
            self._said += self._more(cmd, deadline - time.monotonic())
        line = bytes(self._said[: end + 1])
        del self._said[: end + 1]
        return line

    def _more(self, cmd: str, left_s: float) -> bytes:
        if left_s <= 0:
            raise self._silent(cmd)
        self._answers.settimeout(left_s)
        try:
            more = self._answers.recv(_CHUNK_BYTES)
        except TimeoutError:
            raise self._silent(cmd) from None
        if not more:
            raise ControlLost(f"engine: closed the control socket during {cmd!r}")
        return more

    def close(self) -> None:
        with contextlib.suppress(OSError):  # the engine has ended
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._answers.close()


def object_of(cmd: str, answer: bytes) -> dict[str, Any]:
    """What an engine's socket answers; ControlLost where it is no object."""
    try:
        reply = json.loads(answer, parse_float=_finite, parse_constant=_finite)
    except RecursionError:
        raise ControlLost(f"engine: answer to {cmd!r} is nested too deeply") from None
    except ValueError as error:  # no UTF-8 and too many digits among it
        raise ControlLost(f"engine: answer to {cmd!r} is not JSON: {error}") from None
    if not isinstance(reply, dict):
        raise ControlLost(f"engine: answer to {cmd!r} is no object")
    return reply


def _parsed(cmd: str, answer: bytes) -> dict[str, Any]:
    reply = object_of(cmd, answer)
    if not reply.get("ok"):
        why = reply.get("error")
        told = why if isinstance(why, dict) else {}
        raise ControlError(cmd, _text(told, "path", ""), _text(told, "msg", "?"))
    return reply


def _finite(text: str) -> float:
    """JSON has no others; Python reads them, and whoever computes with them fails."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number")
    return number


def _text(told: dict[str, Any], key: str, otherwise: str) -> str:
    value = told.get(key)
    return value if isinstance(value, str) else otherwise


def _connected(path: Path, timeout_s: float) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(timeout_s)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    return connection
