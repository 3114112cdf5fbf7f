# SPDX-License-Identifier: Apache-2.0
"""An engine that was taken over, and what its telemetry socket then answers."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from headrace.collect.application import Application
from headrace.collect.collector import Targets
from headrace.engine.control import ControlLost
from headrace.engine.control_hostile_test import FORK, SOON_S, lingering, send_with

GREETING = json.dumps({"version": "DPDK", "max_output_len": 16384}).encode()
Answer = Callable[[socket.socket, bytes], None]


@contextmanager
def answering(path: Path, greeting: bytes, answer: Answer) -> Iterator[Application]:
    """The collector of an engine that says so."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(path))
        listening.listen()

        def serve() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listening.accept()
                    with client, suppress(OSError):
                        client.send(greeting)
                        while request := client.recv(1 << 16):
                            answer(client, request)

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield Application(Targets(telemetry=(path,)))
        finally:
            listening.shutdown(socket.SHUT_RDWR)


def says(text: str, names: str = '{"/headrace/segments": ["a"]}') -> Answer:
    """Lists `names`, and says `text` of each."""

    def answer(client: socket.socket, request: bytes) -> None:
        client.send((names if request.endswith(b"s") else text).encode())

    return answer


WHOLE = '{"/headrace/segment": {"in": 3, "nfs": {"acl": {"in": 2}}}}'


def test_an_engine_is_read(tmp_path: Path) -> None:
    with answering(tmp_path / "s", GREETING, says(WHOLE)) as application:
        values = {f"{one.metric}{{{one.place}}}": one.value for one in application.read()}
    place = f"{tmp_path.name}/a"
    assert values == {f"in{{{place}}}": 3, f"in{{{place}/nfs/acl}}": 2}


DEEP = "[" * 200 + "1" + "]" * 200


@pytest.mark.parametrize(
    ("greeting", "answer", "why"),
    [
        (b"[]", says(WHOLE), "is no object"),
        (b'{"max_output_len": []}', says("[]"), "is no object"),
        (b"\xff", says(WHOLE), "is not JSON"),
        (b"[" * 60_000, says(WHOLE), "nested too deeply"),
        (GREETING, says('{"/headrace/segment": ' + DEEP + "}"), "nested too deeply"),
        (GREETING, says('{"/headrace/segment": {"in": NaN}}'), "is not JSON"),
        (GREETING, says('{"/headrace/segment": {"in": ' + "9" * 6000 + "}}"), "is not JSON"),
        (GREETING, says(WHOLE, '{"/headrace/segments": 7}'), "no list of names"),
        (GREETING, says(WHOLE, '{"/headrace/segments": [["a"]]}'), "no list of names"),
        (GREETING, says(WHOLE, "7"), "is no object"),
    ],
)
def test_nonsense_is_one_line(tmp_path: Path, greeting: bytes, answer: Answer, why: str) -> None:
    with (
        answering(tmp_path / "s", greeting, answer) as application,
        pytest.raises(ControlLost, match=f"^engine: [^\n]*{why}[^\n]*$"),
    ):
        list(application.read())


def test_an_engine_that_has_ended_is_left_out(tmp_path: Path) -> None:
    def ends(client: socket.socket, request: bytes) -> None:
        client.shutdown(socket.SHUT_RDWR)

    with answering(tmp_path / "s", GREETING, ends) as application:
        assert list(application.read()) == []


def test_values_without_an_end_are_cut(tmp_path: Path) -> None:
    text = json.dumps({"/headrace/segment": list(range(9_000))})
    names = json.dumps({"/headrace/segments": ["a"] * 1000})
    with answering(tmp_path / "s", GREETING, says(text, names)) as application:
        assert len(list(application.read())) == 1 << 16


def test_a_socket_that_waits_holds_nobody(tmp_path: Path) -> None:
    """It came with an answer, and takes an hour to be closed."""
    with lingering() as held:

        def sends_it(client: socket.socket, request: bytes) -> None:
            if held.fileno() >= 0:
                send_with(client, b'{"/headrace/segments": []}', held)
                held.close()
            else:
                client.send(b'{"/headrace/links": []}')

        with answering(tmp_path / "s", GREETING, sends_it) as application:

            def reads() -> None:
                held.close()  # or what came with the answer is not the last of it
                list(application.read())

            reader = FORK.Process(target=reads)
            reader.start()
            reader.join(SOON_S)
            try:
                assert reader.exitcode == 0
            finally:
                reader.kill()
