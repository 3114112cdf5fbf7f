# SPDX-License-Identifier: Apache-2.0
"""Who is connected to: a socket that is there, and nothing that only leads to one."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.host.sockets import connect_to


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
