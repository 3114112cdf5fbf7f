# SPDX-License-Identifier: Apache-2.0
"""Sockets in folders that others write."""

from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path

from headrace.errors import HeadraceError

_CONNECT_S = 5.0


def connect_to(path: Path) -> socket.socket:
    """A stream to who listens at this very file; OSError: nobody does yet."""
    pinned = pinned_socket(path)
    try:
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        stream.settimeout(_CONNECT_S)  # one who listens and lets its queue fill up
        try:
            stream.connect(f"/proc/self/fd/{pinned}")
        except OSError as error:
            stream.close()
            if error.errno == errno.EPROTOTYPE:
                raise HeadraceError(f"{path}: is no stream socket") from None
            raise
        return stream
    finally:
        os.close(pinned)


def pinned_socket(path: Path) -> int:
    """The descriptor (O_PATH) by which this very file is reached; OSError: there is none.

    Whoever can write in its folder could put a link there, to a socket of the host's; the folders
    above are the lab's own.
    """
    pinned = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    if not stat.S_ISSOCK(os.fstat(pinned).st_mode):
        os.close(pinned)
        raise HeadraceError(f"{path}: is no socket, though a VNF was to listen there")
    return pinned
