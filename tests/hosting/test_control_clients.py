# SPDX-License-Identifier: Apache-2.0
"""Clients of an engine's sockets that do not behave: they wait alone, and it ends as it should."""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.engine import Engine, memory_engine

pytestmark = pytest.mark.beside

Start = Callable[..., Engine]


def plan(cpu: int) -> dict[str, Any]:
    return {
        "version": 1,
        "engine": memory_engine(),
        "links": {
            "gen": {"type": "source", "params": {"frame_bytes": [64], "flows": 16}},
            "meas": {"type": "sink", "params": {}},
        },
        "segments": [
            {"name": "only", "cpus": [cpu], "inputs": [{"link": "gen", "to": "link:meas"}]}
        ],
    }


def test_client_that_does_not_read(start_engine: Start, cpus: list[int]) -> None:
    """It has asked for more than its socket holds; another is answered at once, and SIGTERM heard.
    When it reads at last, each of its requests has its reply."""
    asked = 500
    with start_engine(plan(cpus[0])) as engine:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as deaf:
            deaf.connect(str(engine.socket_path))
            deaf.sendall(b'{"cmd": "read"}\n' * asked)
            time.sleep(0.3)
            began = time.monotonic()
            assert engine.read()["links"]["gen"]["state"] == "idle"
            assert time.monotonic() - began < 5
            lines = deaf.makefile("rb")
            assert all(json.loads(lines.readline())["ok"] for _ in range(asked))
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as deaf:
            deaf.connect(str(engine.socket_path))
            deaf.sendall(b'{"cmd": "read"}\n' * asked)
            time.sleep(0.3)
            engine.process.send_signal(signal.SIGTERM)
            assert engine.process.wait(timeout=10) == 0


def test_reply_is_text(start_engine: Start, cpus: list[int]) -> None:
    """A name that is cut within a character, in a message of its error."""
    with (
        start_engine(plan(cpus[0])) as engine,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client,
    ):
        client.connect(str(engine.socket_path))
        for name in ("x" + "é" * 60, "x" + "漢" * 60):
            request = {"cmd": "set", "link": name, "rate_pps": 1}
            client.sendall(json.dumps(request, ensure_ascii=False).encode() + b"\n")
            reply = json.loads(client.makefile("rb").readline())
            assert not reply["ok"]
            assert reply["error"]["msg"].startswith('there is no link "x' + name[1])


@pytest.mark.parametrize("round_", range(4))
def test_telemetry_is_read_while_it_ends(start_engine: Start, cpus: list[int], round_: int) -> None:
    ended = threading.Event()
    answers: list[int] = []

    def read(path: Path) -> None:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
                client.settimeout(5)
                client.connect(str(path))
                client.recv(1 << 16)
                while not ended.is_set():
                    client.send(b"/headrace/segment,only")
                    answers.append(len(client.recv(1 << 16)))
        except OSError:
            pass

    asked = plan(cpus[0])
    with start_engine(asked) as engine:
        path = Path("/run/dpdk") / asked["engine"]["file_prefix"] / "dpdk_telemetry.v2"
        if not path.exists():
            pytest.skip(f"{path}: not there; DPDK's runtime directory is another for this user")
        threads = [threading.Thread(target=read, args=(path,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.1 + 0.02 * round_)
    ended.set()
    for thread in threads:
        thread.join()
    assert len(answers) > 10
    assert engine.process.returncode == 0
