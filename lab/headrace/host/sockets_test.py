# SPDX-License-Identifier: Apache-2.0
"""Who is connected to: a socket that is there, and nothing that only leads to one."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.host.sockets import bytes_of, connect_to


def listening(at: Path, kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, kind)
    listener.bind(str(at))
    if kind == socket.SOCK_STREAM:
        listener.listen()
    return listener


def test_a_socket_that_is_there(tmp_path: Path) -> None:
    with listening(tmp_path / "s") as listener, connect_to(tmp_path / "s") as stream:
        peer, _ = listener.accept()
        with peer:
            stream.sendall(b"hello")
            assert peer.recv(10) == b"hello"


def test_a_link_to_a_socket_is_refused(tmp_path: Path) -> None:
    with listening(tmp_path / "hosts") as listener:
        (tmp_path / "s").symlink_to(tmp_path / "hosts")
        with pytest.raises(HeadraceError, match="is no socket"):
            connect_to(tmp_path / "s")
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_what_is_no_stream_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HeadraceError, match="is no socket"):
        connect_to(tmp_path / "file")
    with (
        listening(tmp_path / "s", socket.SOCK_DGRAM),
        pytest.raises(HeadraceError, match="no stream socket"),
    ):
        connect_to(tmp_path / "s")


def test_nobody_is_there_yet(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        connect_to(tmp_path / "s")
    listening(tmp_path / "s").close()
    with pytest.raises(ConnectionRefusedError):
        connect_to(tmp_path / "s")


def test_messages_stay_whole() -> None:
    """Two that were sent are two, as DPDK's telemetry has them."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs, ours, bytes_of(ours) as handed_on:
        for text in (b"one", b"two"):
            theirs.send(text)
        time.sleep(0.2)  # both are there
        assert (handed_on.recv(100), handed_on.recv(100)) == (b"one", b"two")
        theirs.shutdown(socket.SHUT_RDWR)
