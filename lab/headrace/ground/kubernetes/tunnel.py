# SPDX-License-Identifier: Apache-2.0
"""An engine's control socket, by a stream into its pod."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from typing import Any

from headrace.host.cluster import Cluster

_CHUNK_BYTES = 1 << 16
_LOOK_S = 0.5


class Tunnel:
    """A command's standard input and output as a socket. One thread has the stream, as its TLS is
    for one at a time."""

    def __init__(
        self, cluster: Cluster, namespace: str, pod: str, container: str, command: tuple[str, ...]
    ) -> None:
        self.socket, self._theirs = socket.socketpair()
        self._stream = cluster.open(namespace, pod, container, command, stdin=True)
        self._over = threading.Event()
        self.errors = ""  # what the command wrote to its standard error
        self._thread = threading.Thread(target=self._pump, name=f"tunnel {pod}", daemon=True)
        self._thread.start()

    def _pump(self) -> None:
        with contextlib.suppress(Exception), self._theirs:
            raw = self._stream.sock.sock
            while not self._over.is_set() and self._stream.is_open():
                ready, _, _ = select.select([raw, self._theirs], [], [], _LOOK_S)
                if self._theirs in ready:
                    data = self._theirs.recv(_CHUNK_BYTES)
                    if not data:
                        break
                    self._stream.write_stdin(data)
                if raw in ready:
                    self._take(raw)
        # Whoever waits for an answer learns that none will come.
        with contextlib.suppress(OSError):
            self._theirs.close()
        with contextlib.suppress(Exception):
            self._stream.close()

    def _take(self, raw: Any) -> None:
        """All that has come: what TLS has decrypted is not seen by select."""
        while True:
            self._stream.update(timeout=0)
            if self._stream.peek_stdout():
                self._theirs.sendall(self._stream.read_stdout().encode())
            if self._stream.peek_stderr():
                self.errors = (self.errors + self._stream.read_stderr())[-_CHUNK_BYTES:]
            if not self._stream.is_open() or not getattr(raw, "pending", lambda: 0)():
                return

    def close(self) -> None:
        self._over.set()
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(2 * _LOOK_S)
