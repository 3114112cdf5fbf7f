# SPDX-License-Identifier: Apache-2.0
"""Packets that two engines are compared by are all sent, whatever the machine does meanwhile."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.engine.engine import Engine
from headrace.engine.plan_document import Plan
from headrace.ground.engines import equivalence
from headrace.ground.engines.frames import read_frames
from headrace.host.state import RunState
from headrace.record.identity import Direction
from support.engine import free_cpus, memory_engine

pytestmark = pytest.mark.beside

PACKETS, STOPPED_S = 150, 0.3  # four times what they take


class Stopped(Engine):
    """It stands still just after its source was told to send."""

    def request(self, cmd: str, **arguments: Any) -> dict[str, Any]:
        answer = super().request(cmd, **arguments)
        if cmd == "start":
            os.kill(self.pid, signal.SIGSTOP)
            threading.Timer(STOPPED_S, os.kill, (self.pid, signal.SIGCONT)).start()
        return answer


@dataclass(frozen=True)
class Way:
    direction: Direction = "forward"
    source: str = "gen"
    sink: str = "out"


def test_a_source_that_stood_still_sends_the_rest(engine_binary: Path, tmp_path: Path) -> None:
    """Its time was over, and the comparison with it: "124 of 150 were sent"."""
    out = tmp_path / "out.pcap"
    plan = {
        "version": 1,
        "engine": memory_engine(),
        "links": {
            "gen": {"type": "source", "params": {"frame_bytes": [64], "flows": 16}},
            "out": {"type": "port", "params": {"devargs": f"net_pcap_out,tx_pcap={out}"}},
        },
        "nfs": {},
        "segments": [
            {"name": "gen", "cpus": free_cpus()[:1], "inputs": [{"link": "gen", "to": "link:out"}]}
        ],
    }
    state = RunState()
    try:
        with Stopped(engine_binary, Plan.model_validate(plan), state) as engine:
            equivalence._send(engine, (Way(),), {"gen": PACKETS})
        assert len(read_frames(out)) == PACKETS
    finally:
        state.remove()
