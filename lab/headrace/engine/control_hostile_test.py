# SPDX-License-Identifier: Apache-2.0
"""A VNF's control socket whose owner means to hold the lab: by what it sends, and how slowly."""

from __future__ import annotations

import array
import json
import multiprocessing
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from headrace.engine import control as client
from headrace.engine.control import Control, ControlLost

FORK = multiprocessing.get_context("fork")
SOON_S = 10.0  # an attack that works takes an hour
ANSWER = json.dumps({"ok": True, "result": 7}).encode() + b"\n"


@contextmanager
def lingering() -> Iterator[socket.socket]:
    """A TCP socket that has more to send than is ever read, and waits an hour when it is closed."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = socket.create_connection(server.getsockname())
        peer, _ = server.accept()
        sender.setblocking(False)
        try:
            while sender.send(bytes(65536)):
                pass
        except BlockingIOError:
            pass
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600))
        with peer:
            yield sender


def send_with(theirs: socket.socket, data: bytes, held: socket.socket) -> None:
    rights = array.array("i", [held.fileno()])
    theirs.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


def before_the_answer(theirs: socket.socket, held: socket.socket) -> None:
    send_with(theirs, ANSWER[:5], held)
    held.close()
    theirs.sendall(ANSWER[5:])


def after_the_answer(theirs: socket.socket, held: socket.socket) -> None:
    theirs.sendall(ANSWER)
    send_with(theirs, b"more", held)
    held.close()


WAYS = [before_the_answer, after_the_answer]
Way = Callable[[socket.socket, socket.socket], None]


def asked(ours: socket.socket, theirs: socket.socket) -> None:
    """Asks, waits for the answer, and closes."""
    theirs.close()
    control = Control(ours, 1)
    control.send("read")
    try:
        assert control.receive("read")["result"] == 7
    except ControlLost as lost:
        assert "no answer to 'read' within 1 s" in str(lost)
    control.close()


@pytest.mark.parametrize("way", WAYS)
def test_sockets_that_wait_hold_nobody(way: Way) -> None:
    """The process that has them does not wait when it ends, either."""
    ours, theirs = socket.socketpair()
    with lingering() as held:
        way(theirs, held)  # nobody else has it when it is received
        lab = FORK.Process(target=asked, args=(ours, theirs))
        lab.start()
        ours.close()
        lab.join(SOON_S)
        waits = lab.is_alive()
        lab.kill()
        lab.join()
    assert (waits, lab.exitcode) == (False, 0)
    assert theirs.recv(100) == b'{"cmd": "read"}\n'
    theirs.close()


def test_an_answer_has_its_time_as_a_whole() -> None:
    """However often a byte of it comes."""
    ours, theirs = socket.socketpair()
    stop = threading.Event()

    def drip() -> None:
        while not stop.wait(0.05):
            theirs.sendall(b" ")

    sender = threading.Thread(target=drip)
    sender.start()
    control, since = Control(ours, 0.5), time.monotonic()
    with pytest.raises(ControlLost, match=r"no answer to 'read' within 0\.5 s"):
        control.receive("read")
    assert time.monotonic() - since < SOON_S
    stop.set()
    sender.join()
    control.close()


def test_an_answer_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was sent beyond the bound is not taken: the sender waits."""
    monkeypatch.setattr(client, "_ANSWER_MOST", 1 << 20)
    ours, theirs = socket.socketpair()
    sent = 0

    def flood() -> None:
        nonlocal sent
        try:
            while True:
                sent += theirs.send(b"[" * 65536)
        except OSError:
            theirs.close()

    sender = threading.Thread(target=flood)
    sender.start()
    control = Control(ours, SOON_S)
    with pytest.raises(ControlLost, match="is longer than 1048576 bytes"):
        control.receive("read")
    time.sleep(0.2)
    assert 1 << 20 <= sent < 4 << 20
    control.close()
    sender.join(SOON_S)
    assert not sender.is_alive()


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("NaN", "NaN is no number"),
        ("-Infinity", "-Infinity is no number"),
        ("1e999", "1e999 is no number"),
        ("9" * 5000, "Exceeds the limit"),
        ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_number_is_not_computed_with(value: str, why: str) -> None:
    ours, theirs = socket.socketpair()
    control = Control(ours, SOON_S)
    theirs.sendall(b'{"ok": true, "start_tsc": ' + value.encode() + b"}\n")
    with pytest.raises(ControlLost, match=f"^engine: answer to 'start' is .*{why}"):
        control.receive("start")
    theirs.close()
    control.close()


def test_two_answers_at_once_are_two() -> None:
    ours, theirs = socket.socketpair()
    control = Control(ours, SOON_S)
    theirs.sendall(b'{"ok": true, "n": 1}\n{"ok": true, "n": 2}\n')
    assert [control.receive("read")["n"], control.receive("read")["n"]] == [1, 2]
    theirs.close()
    with pytest.raises(ControlLost, match="closed the control socket during 'read'"):
        control.receive("read")
    control.close()
