# SPDX-License-Identifier: Apache-2.0
"""Removing a folder that a VNF could write to, as deep and as strange as it likes."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def remove_tree(path: Path) -> bool:
    """Whether nothing of it is left. No link is followed, nothing is emptied that is mounted there,
    and depth takes neither stack nor descriptors."""
    try:
        above = os.open(path.parent, _FOLDER)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        _empty(os.open(path.name, _FOLDER | os.O_NOFOLLOW, dir_fd=above))
        os.rmdir(path.name, dir_fd=above)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    finally:
        os.close(above)
    return True


def _empty(at: int) -> None:
    """It closes the folder. One is open at a time: the way back is by `..`, which must lead to
    where it came from, or somebody has moved things meanwhile."""
    way: list[tuple[str, list[str], tuple[int, int]]] = []  # that was entered, what is left beside
    try:
        left = _without_files(at)
        while left or way:
            if left:
                name = left.pop()
                here, below = _identity(at), _entered(at, name)
                if below is not None:
                    way.append((name, left, here))
                    os.close(at)
                    at = below
                    left = _without_files(at)
                continue
            name, left, here = way.pop()
            up = os.open("..", _FOLDER, dir_fd=at)
            os.close(at)
            at = up
            if _identity(at) != here:
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
            with contextlib.suppress(OSError):
                os.rmdir(name, dir_fd=at)
    finally:
        os.close(at)


def _entered(at: int, name: str) -> int | None:
    """None where that may not be."""
    try:
        below = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=at)
    except OSError:
        return None
    if os.fstat(below).st_dev == os.fstat(at).st_dev:
        return below
    os.close(below)
    return None


def _without_files(at: int) -> list[str]:
    """The folders in it, which are all that is left."""
    folders = []
    with os.scandir(at) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            else:
                with contextlib.suppress(OSError):
                    os.unlink(entry.name, dir_fd=at)
    return folders


def _identity(folder: int) -> tuple[int, int]:
    status = os.fstat(folder)
    return status.st_dev, status.st_ino
