# SPDX-License-Identifier: Apache-2.0
"""The engine while it starts: whose control socket it is, when it answers, what it says if not."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.engine.engine import Engine as LabEngine
from headrace.engine.plan_document import Plan
from headrace.errors import HeadraceError
from headrace.host.state import RunState
from support.engine import Engine, memory_engine
from support.lab import runtime_dir
from support.plans import port

MISSING = {
    "net_af_packet0,iface=nosuch0": "No such device",
    "net_pcap0,rx_pcap=/no/such/file": "No such file",
    "net_nosuch0": "net_nosuch0",
}


def plan(cpu: int, link: dict[str, Any]) -> dict[str, Any]:
    return {
        "version": 1,
        "engine": memory_engine(),
        "links": {"wire": link, "meas": {"type": "sink"}},
        "segments": [
            {"name": "chain", "cpus": [cpu], "inputs": [{"link": "wire", "to": "link:meas"}]}
        ],
    }


@pytest.mark.needs_root
@pytest.mark.parametrize("device", MISSING)
def test_a_missing_device_is_one_line(
    device: str, engine_binary: Path, tmp_path: Path, cpus: list[int]
) -> None:
    """DPDK's own lines do not come before it; the one that says why is part of it."""
    file, control = tmp_path / "plan.json", tmp_path / "control.sock"
    file.write_text(json.dumps(plan(cpus[0], port(device))))
    command = [str(engine_binary), "--plan", str(file), "--control", str(control)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "links.wire.params.devargs" in done.stderr and MISSING[device] in done.stderr
    assert not control.exists()
    asked = subprocess.run([*command, "--verbose"], capture_output=True, text=True, timeout=120)
    assert asked.returncode == 2
    assert len(asked.stderr.splitlines()) > 1, "the whole log, when asked for"


def connects(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        try:
            client.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
    return True


def test_it_answers_when_it_runs_and_not_before(
    start_engine: Callable[..., Engine], tmp_path: Path, cpus: list[int]
) -> None:
    """Rules come out of a pipe, so that loading them takes as long as the test likes. Meanwhile
    nobody can connect to the control socket, and nobody can take it away."""
    pipe = tmp_path / "rules"
    os.mkfifo(pipe)
    acl = plan(cpus[0], {"type": "source"})
    acl["nfs"] = {"acl": {"type": "acl", "params": {"rules_file": str(pipe)}}}
    acl["segments"][0]["inputs"][0]["to"] = "acl"
    acl["segments"][0]["nodes"] = {"acl": {"forward": {"pass": "link:meas"}}}
    engine = start_engine(acl)
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(engine.command, stdout=log, stderr=log)
    try:
        Engine.wait_for(engine.socket_path.exists, "the bound socket", seconds=60)
        assert not connects(engine.socket_path)
        second = subprocess.run(engine.command, capture_output=True, text=True, timeout=60)
        assert second.returncode == 2 and len(second.stderr.splitlines()) == 1, second.stderr
        assert str(engine.socket_path) in second.stderr
        assert engine.socket_path.exists() and not connects(engine.socket_path)
        pipe.write_text("@0.0.0.0/0\t0.0.0.0/0\t0 : 65535\t80 : 80\t0x11/0xFF\t0x0000/0x0000\n")
        Engine.wait_for(lambda: connects(engine.socket_path), "an answer", seconds=60)
    finally:
        process.terminate()
        process.wait(timeout=30)
    assert process.returncode == 0, (tmp_path / "log").read_text()
    assert not engine.socket_path.exists()


def test_an_engine_without_its_hugepages_says_who_has_them(
    engine_binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cpus: list[int]
) -> None:
    """More of them than there is memory: the lab's own start of the engine."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime_dir(tmp_path)))
    wanted = Plan.model_validate(
        plan(cpus[0], {"type": "ring"})
        | {"engine": {"hugepages": True, "memory_mb": 1 << 20, "file_prefix": "lacking"}, "nfs": {}}
    )
    run = RunState()
    try:
        with pytest.raises(HeadraceError, match=r"hugepages: \d+ of \d+ pages of \d+ kB are free"):
            LabEngine(engine_binary, wanted, run)
    finally:
        run.remove()
