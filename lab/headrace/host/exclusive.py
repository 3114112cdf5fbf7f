# SPDX-License-Identifier: Apache-2.0
"""Two measurements on one lcore spoil each other without either noticing: they take turns."""

from __future__ import annotations

import os
import pwd
import socket
import struct
import time
from collections.abc import Callable, Iterable
from types import TracebackType

from headrace.errors import HeadraceError

# A search takes minutes, a study perhaps an hour. Whoever waits longer has forgotten something.
WAIT_S = 3600.0
_POLL_S = 0.25
_BACKLOG = 64


class HeldLcores:
    """Holds lcores for one run. An abstract Unix socket per lcore is seen by all users of the
    machine, leaves no file, and is given up by the kernel however its holder ends (unix(7))."""

    def __init__(
        self, cpus: Iterable[int], waiting: Callable[[int], None], wait_s: float = WAIT_S
    ) -> None:
        self._held: list[socket.socket] = []
        deadline = time.monotonic() + wait_s
        try:
            # In order of number, or two runs could each hold what the other waits for.
            for cpu in sorted(cpus):
                self._held.append(_take(cpu, waiting, deadline, wait_s))
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        while self._held:
            self._held.pop().close()

    def __enter__(self) -> HeldLcores:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.release()


def _take(
    cpu: int, waiting: Callable[[int], None], deadline: float, wait_s: float
) -> socket.socket:
    told = False
    while True:
        one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            one.bind(_name(cpu))
            one.listen(_BACKLOG)  # so that those who wait can ask whose it is
            return one
        except OSError:
            one.close()
        if time.monotonic() >= deadline:
            raise HeadraceError(
                f"lcore {cpu}: held by {holder(cpu)} for more than {wait_s:g} s; end it, "
                "wait longer (--wait SECONDS), or have the spec name another lcore"
            )
        if not told:
            waiting(cpu)
            told = True
        time.sleep(_POLL_S)


def _name(cpu: int) -> str:
    return f"\0headrace-lcore-{cpu}"


def holder(cpu: int) -> str:
    """Who holds an lcore, as far as one can tell."""
    return _listener(cpu) or "another run"


def held(cpus: Iterable[int]) -> dict[str, list[int]]:
    """Who holds which of these lcores now."""
    held: dict[str, list[int]] = {}
    for cpu in sorted(cpus):
        if (who := _listener(cpu)) is not None:
            held.setdefault(who, []).append(cpu)
    return held


def _listener(cpu: int) -> str | None:
    """The process that listens on an lcore's socket (SO_PEERCRED, unix(7)); None: nobody does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.setblocking(False)
        try:
            asking.connect(_name(cpu))
            credentials = asking.getsockopt(
                socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
            )
        except ConnectionRefusedError:
            return None
        except OSError:
            return "another run"  # so many ask that its queue of them is full
    pid, uid, _ = struct.unpack("3i", credentials)
    if not pid:  # pid_namespaces(7): it has no number in here
        return "a process outside of this container"
    return f"process {pid}" + ("" if uid == os.geteuid() else f" of {_user(uid)}")


def _user(uid: int) -> str:
    """Anybody may hold an lcore's name, whether for a run or to keep others from theirs."""
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"
