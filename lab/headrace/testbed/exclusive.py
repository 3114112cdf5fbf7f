# SPDX-License-Identifier: Apache-2.0
"""Two measurements on one lcore spoil each other without either noticing: they take turns."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable
from types import TracebackType

_POLL_S = 0.25


class Lcores:
    """Holds lcores for one run. An abstract Unix socket per lcore is seen by all users of the
    machine, leaves no file, and is given up by the kernel however its holder ends (unix(7))."""

    def __init__(self, cpus: Iterable[int], waiting: Callable[[int], None]) -> None:
        self._held: list[socket.socket] = []
        try:
            # In order of number, or two runs could each hold what the other waits for.
            for cpu in sorted(cpus):
                self._held.append(_take(cpu, waiting))
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        while self._held:
            self._held.pop().close()

    def __enter__(self) -> Lcores:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.release()


def _take(cpu: int, waiting: Callable[[int], None]) -> socket.socket:
    said = False
    while True:
        one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            one.bind(f"\0headrace-lcore-{cpu}")
            return one
        except OSError:
            one.close()
        if not said:
            waiting(cpu)
            said = True
        time.sleep(_POLL_S)
