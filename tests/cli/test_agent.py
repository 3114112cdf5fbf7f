# SPDX-License-Identifier: Apache-2.0
"""`headrace agent` by itself, spoken to over pipes as SSH does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.lab import COMMAND, environment, state_left, wait_for

pytestmark = pytest.mark.parallel


class Agent:
    def __init__(self, folder: Path, engine: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [COMMAND, "agent"], env=environment(folder, engine), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def ask(self, line: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def child(self) -> int:
        """The process that does what is asked; ours watches over it."""
        pid = self.process.pid
        [child] = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(child)

    def gone(self) -> bool:
        return state_left(self.folder) == []


@pytest.fixture
def agent(tmp_path: Path, engine_binary: Path) -> Agent:
    return Agent(tmp_path, engine_binary)


def test_it_answers_and_ends_with_its_input(agent: Agent) -> None:
    hello = agent.ask('{"cmd": "hello"}')
    assert hello["ok"]
    assert {str(cpu) for cpu in hello["cpus"]} == set(hello["nodes"])
    ports = agent.ask(
        '{"cmd": "ports", "devices": {"a": "af_xdp:none0", "b": "tap:hrnone0", "c": "lo"}}'
    )
    assert ports["devices"] == {"b": "tap:hrnone0"}
    assert "there is no interface none0" in ports["unfit"]["a"]
    assert "lo is no PCI device" in ports["unfit"]["c"]
    assert agent.process.stdin is not None
    agent.process.stdin.close()
    assert agent.process.wait(20) == 0
    assert agent.process.stderr is not None
    assert agent.process.stderr.read() == ""
    assert agent.gone()


def switches() -> int:
    [line] = [one for one in Path("/proc/stat").read_text().splitlines() if one[:4] == "ctxt"]
    return int(line.split()[1])


def test_it_reads_layers(agent: Agent) -> None:
    """What it counts lies between what is counted here before and after."""
    watch = {"cmd": "watch", "layers": ["os"], "containers": {}, "bridges": None}
    assert agent.ask(json.dumps(watch))["layers"]["os"]["refused"] is None
    before = switches()
    sample = agent.ask('{"cmd": "sample", "layer": "os"}')
    values = {(metric, place): value for metric, place, value, _ in sample["values"]}
    assert before < values["context_switches", ""] < switches()
    assert sample["cpu_ns"] > 0
    other = agent.ask('{"cmd": "sample", "layer": "hardware"}')
    assert other["error"]["msg"] == "layer: got 'hardware'; allowed: os"
    assert agent.ask('{"cmd": "traced"}')["error"]["msg"] == "no packets are traced"


@pytest.mark.parametrize(
    "line",
    ["nothing", "[]", "{}", '{"cmd": "rm"}', '{"cmd": "read", "engine": "none"}',
     '{"cmd": "begin", "name": "x", "plan": {}}', '{"cmd": "ports", "devices": {"a": "b:c"}}'],
)  # fmt: skip
def test_what_is_no_request_is_refused(agent: Agent, line: str) -> None:
    answer = agent.ask(line)
    assert not answer["ok"]
    assert answer["error"]["msg"]
    assert agent.ask('{"cmd": "hello"}')["ok"], "it goes on"
    assert agent.process.stdin is not None
    agent.process.stdin.close()
    assert agent.process.wait(20) == 0


@pytest.mark.parametrize("who", ["child", "guard"])
def test_a_kill_of_either_process_leaves_nothing(agent: Agent, who: str) -> None:
    assert agent.ask('{"cmd": "hello"}')["ok"]
    assert not agent.gone()
    os.kill(agent.child() if who == "child" else agent.process.pid, signal.SIGKILL)
    assert wait_for(agent.gone, 20)
