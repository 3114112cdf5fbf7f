# SPDX-License-Identifier: Apache-2.0
"""A command's stream into a container, frame by frame, in bytes.

What comes is a pod's to choose. The client's own reader goes on for as long as frames come, keeps
all of them, and decodes them: a pod that writes without end would have the lab's time and memory.
"""

from __future__ import annotations

import contextlib
import json
import select
from typing import Any

from headrace.errors import HeadraceError

STDIN, STDOUT, STDERR, _STATUS, _CLOSED = 0, 1, 2, 3, 255  # channels of v5.channel.k8s.io
_CLOSE, _DATA = 8, (1, 2)  # operations (RFC 6455)
_STATUS_MOST = 1 << 16  # bytes
_FRAME_S = 30.0  # for the rest of one that began


class CommandStream:
    """`socket` is of the client's library, and open. Used by one thread at a time, as TLS is."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._socket.settimeout(_FRAME_S)
        self._status = bytearray()
        self.open = True

    def fileno(self) -> int:
        return int(self._socket.sock.fileno())

    @property
    def pending(self) -> bool:
        """Whether something has come that `select` does not see, as TLS decrypts more at once."""
        return self.open and bool(getattr(self._socket.sock, "pending", lambda: 0)())

    def next(self, within_s: float) -> tuple[int, bytes] | None:
        """What the next frame brought of STDOUT or STDERR; None: nothing of them within this time,
        or it is over."""
        if not self.open or not (self.pending or select.select([self], [], [], within_s)[0]):
            return None
        operation, frame = self._socket.recv_data_frame(True)
        if operation == _CLOSE:
            self.open = False
        if operation not in _DATA or not frame.data:
            return None
        channel, data = frame.data[0], bytes(frame.data[1:])
        if channel == _STATUS:
            self._status += data[: _STATUS_MOST - len(self._status)]
        return (channel, data) if channel in (STDOUT, STDERR) and data else None

    def write(self, data: bytes) -> None:
        self._socket.send_binary(bytes((STDIN,)) + data)

    def status(self) -> int | None:
        """How the command ended; None: nobody said, so its connection ended before it."""
        try:
            answer = json.loads(self._status)
            if answer["status"] == "Success":
                return 0
            return int(answer["details"]["causes"][0]["message"])
        except (KeyError, ValueError, TypeError, IndexError, RecursionError):
            return None

    def close(self) -> None:
        self.open = False
        with contextlib.suppress(Exception):  # it may have ended
            self._socket.close(timeout=0)  # else what a pod still sends is read for three seconds


class Output:
    """What a command says, up to a limit of both ways together."""

    def __init__(self, what: str, most: int) -> None:
        self._what, self._most, self._size = what, most, 0
        self._parts: dict[int, list[bytes]] = {STDOUT: [], STDERR: []}

    def take(self, channel: int, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._most:
            raise HeadraceError(f"{self._what} wrote more than {self._most} bytes")
        self._parts[channel].append(data)

    def text(self, channel: int) -> str:
        return b"".join(self._parts[channel]).decode(errors="replace")
