# SPDX-License-Identifier: Apache-2.0
"""Sockets that others write: in their folders, or what they send."""

from __future__ import annotations

import errno
import os
import socket
import stat
import threading
from pathlib import Path

from headrace.errors import HeadraceError

_CONNECT_S = 5.0
_CHUNK_BYTES = 1 << 18


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


def bytes_of(stream: socket.socket) -> socket.socket:
    """What `stream` receives from now on, without the descriptors that its peer may send.

    Whoever receives descriptors closes them, also when it has no room for them (unix(7)), and a
    TCP socket can be set to wait when it is closed, for hours (SO_LINGER in socket(7)). So a thread
    of its own receives: a peer that sends such a socket holds that thread until the process ends,
    and nobody else. `stream` may be written to meanwhile, and closed after shutdown().
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, stream.type)  # messages stay whole
    own = stream.dup()  # whose closing is the last one: what it still holds is closed with it
    own.settimeout(stream.gettimeout())
    threading.Thread(target=_hand_on, args=(own, theirs), name="bytes_of", daemon=True).start()
    return ours


def _hand_on(stream: socket.socket, to: socket.socket) -> None:
    with stream, to:
        while True:
            try:
                data = stream.recv(_CHUNK_BYTES)
                if not data:
                    return
                to.sendall(data)
            except TimeoutError:
                continue  # nothing was sent to us
            except OSError:
                return
