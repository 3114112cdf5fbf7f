# SPDX-License-Identifier: Apache-2.0
"""A program in a pod, an engine's control socket or an agent, by a stream of the API server."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time

from headrace.host.beat import BEAT_S
from headrace.host.cluster import Cluster
from headrace.host.cluster_stream import STDOUT
from headrace.host.tool import last_words

_CHUNK_BYTES = 1 << 16
_LOOK_S = 0.5
_WORDS_BYTES = 4096


class Tunnel:
    """A command's standard input and output as a socket. One thread has the stream, as its TLS is
    for one at a time. `beats`: between two lines an empty one is sent now and then (beat.py)."""

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        pod: str,
        container: str,
        command: tuple[str, ...],
        *,
        beats: bool = False,
    ) -> None:
        self._beats, self._beaten, self._between = beats, time.monotonic(), True
        self._words = b""
        self.socket, self._theirs = socket.socketpair()
        self._stream = cluster.open(namespace, pod, container, command, stdin=True)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._pump, name=f"tunnel {pod}", daemon=True)
        self._thread.start()

    def _pump(self) -> None:
        with contextlib.suppress(Exception), self._theirs:
            while not self._over.is_set() and self._stream.open:
                both = [self._stream.fileno(), self._theirs.fileno()]
                ready, _, _ = select.select(both, [], [], self._look_s)
                if both[1] in ready:
                    data = self._theirs.recv(_CHUNK_BYTES)
                    if not data:
                        break
                    self._write(data)
                elif self._beats and self._between and time.monotonic() > self._beaten + BEAT_S:
                    self._write(b"\n")
                if both[0] in ready or self._stream.pending:
                    self._take()
        # Whoever waits for an answer learns that none will come.
        with contextlib.suppress(OSError):
            self._theirs.close()
        self._stream.close()

    def _write(self, data: bytes) -> None:
        self._stream.write(data)
        self._beaten, self._between = time.monotonic(), data.endswith(b"\n")

    @property
    def last_words(self) -> str:
        """The last line that the command wrote to its standard error; "" where there is none."""
        self._thread.join(BEAT_S)
        return last_words(self._words.decode(errors="replace")) if self._words.strip() else ""

    @property
    def _look_s(self) -> float:
        return 0.0 if self._stream.pending else _LOOK_S

    def _take(self) -> None:
        frame = self._stream.next(0)
        if frame is None:
            return
        if frame[0] == STDOUT:
            self._theirs.sendall(frame[1])
        else:
            self._words = (self._words + frame[1])[-_WORDS_BYTES:]

    def close(self) -> None:
        self._over.set()
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(2 * _LOOK_S)
