# SPDX-License-Identifier: Apache-2.0
"""Archives that the kernel unpacks as its first root file system: cpio's `newc` form, not
compressed, as unpacking under emulation costs more than reading. Several, one behind the other,
are one (Linux: Documentation/driver-api/early-userspace/buffer-format.rst)."""

from __future__ import annotations

import stat
from pathlib import PurePosixPath
from typing import BinaryIO

_ALIGN = 512


class Archive:
    """Directories come by themselves, before what is in them."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._inode = 0
        self._made: set[PurePosixPath] = {PurePosixPath("/")}

    def file(self, path: str, content: bytes, mode: int = 0o644) -> None:
        at = PurePosixPath(path)
        self._parents(at)
        self._entry(str(at)[1:], stat.S_IFREG | mode, content)

    def link(self, path: str, target: str) -> None:
        at = PurePosixPath(path)
        self._parents(at)
        self._entry(str(at)[1:], stat.S_IFLNK | 0o777, target.encode())

    def directory(self, path: str) -> None:
        at = PurePosixPath(path)
        if at in self._made:
            return
        self._parents(at)
        self._made.add(at)
        self._entry(str(at)[1:], stat.S_IFDIR | 0o755, b"")

    def end(self) -> None:
        self._entry("TRAILER!!!", 0, b"")
        self._out.write(b"\0" * (-self._out.tell() % _ALIGN))

    def _parents(self, at: PurePosixPath) -> None:
        if not at.is_absolute() or ".." in at.parts:
            raise ValueError(f"{at}: not an absolute path")
        for parent in reversed(at.parents):
            self.directory(str(parent))

    def _entry(self, name: str, mode: int, content: bytes) -> None:
        self._inode += 1
        raw = name.encode() + b"\0"
        # ino, mode, uid, gid, nlink, mtime, filesize, dev (2), rdev (2), namesize, check
        numbers = (self._inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(raw), 0)
        header = b"070701" + b"".join(b"%08x" % number for number in numbers)
        self._out.write(_padded(header + raw) + _padded(content))


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
