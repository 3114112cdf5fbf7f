# SPDX-License-Identifier: Apache-2.0
"""An engine that nobody can be the parent of, as in a container, ends with its first client."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from pathlib import Path

import pytest

from support.engine import memory_engine

pytestmark = pytest.mark.beside


def plan(cpu: int) -> dict[str, object]:
    return {
        "version": 1,
        "engine": memory_engine(memory_mb=64, mbufs=4096, mbuf_data_bytes=640),
        "links": {
            "gen": {"type": "source", "params": {"frame_bytes": [64], "flows": 1}},
            "meas": {"type": "sink", "params": {}},
        },
        "segments": [
            {"name": "idle", "cpus": [cpu], "inputs": [{"link": "gen", "to": "link:meas"}]}
        ],
    }


def connect(path: Path) -> socket.socket:
    deadline = time.monotonic() + 60
    while True:
        one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            one.connect(str(path))
            return one
        except OSError:
            one.close()
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_first_client_counts(engine_binary: Path, cpus: list[int], tmp_path: Path) -> None:
    file, control = tmp_path / "plan.json", tmp_path / "c.sock"
    file.write_text(json.dumps(plan(cpus[0])))
    command = [engine_binary, "--plan", file, "--control", control, "--with-client"]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as engine:
        try:
            first = connect(control)
            first.sendall(b'{"cmd": "info"}\n')
            assert json.loads(first.makefile().readline())["ok"]
            second = connect(control)
            second.sendall(b'{"cmd": "info"}\n')
            assert json.loads(second.makefile().readline())["ok"]
            second.close()
            time.sleep(1)
            assert engine.poll() is None, "the second client is no reason to end"
            first.close()
            assert engine.wait(30) == 0
        finally:
            engine.kill()
    assert not control.exists()
