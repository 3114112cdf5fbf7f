# SPDX-License-Identifier: Apache-2.0
"""A thread that stays in a network namespace and has its /sys, as `ip netns exec` gives it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from headrace.errors import HeadraceError
from headrace.host import libc

T = TypeVar("T")
_CLONE_NEWNS = 0x00020000
_CLONE_NEWNET = 0x40000000
_MS_REC, _MS_SLAVE = 0x4000, 0x80000
_MNT_DETACH = 2
_NAMESPACES = Path("/run/netns")


class Inside:
    """`call` runs work in the namespace of this name (ip-netns(8)); `close` ends the thread."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(1)
        try:
            self.call(lambda: _enter(_NAMESPACES / name))
        except OSError as error:
            self.close()
            raise HeadraceError(
                f"network namespace {name}: cannot be entered: {error.strerror}"
            ) from None

    def call(self, work: Callable[[], T]) -> T:
        return self._pool.submit(work).result()

    def close(self) -> None:
        self._pool.shutdown()


def _enter(path: Path) -> None:
    with path.open() as file:
        libc.check(libc.C.setns(file.fileno(), _CLONE_NEWNET))
    libc.check(libc.C.unshare(_CLONE_NEWNS))  # of this thread alone
    libc.check(libc.C.mount(b"none", b"/", None, _MS_REC | _MS_SLAVE, None))
    libc.C.umount2(b"/sys", _MNT_DETACH)
    libc.check(libc.C.mount(b"sysfs", b"/sys", b"sysfs", 0, None))
