# SPDX-License-Identifier: Apache-2.0
"""VNFs that are killed, and started again: flows go on as they were, what was lost is counted."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.ground.engines.frames import read_frames, with_right_sums, write_frames
from support.engine import Engine, EngineError, nf_imbalance
from support.one_vnf import host_plan, replayed, vnf_plan, with_ports

pytestmark = pytest.mark.beside

Start = Callable[..., Engine]
FLOWS = 64
RESTARTS = 100 if os.environ.get("HEADRACE_SLOW") else 5
FIREWALL = {"type": "firewall", "params": {"rules": [{"action": "permit"}], "tcp_loose": True}}
NAT = {"type": "nat", "params": {"pool": ["203.0.113.1", "203.0.113.2"]}}
MS = 100
RULE = 'alert tcp any any -> any any (content:"word"; sid:1;)'


def started(start: Start, plan: dict[str, Any]) -> Engine:
    vnf = start(plan)
    vnf.__enter__()
    return vnf


def kill(vnf: Engine) -> None:
    os.kill(vnf.process.pid, signal.SIGKILL)
    vnf.process.wait()
    vnf.socket.close()


def checkpoint(vnf: Engine) -> dict[str, Any]:
    [replica] = vnf.read()["segments"]["vnf"]
    return dict(replica["checkpoint"])


def wait_for_pass(vnf: Engine, passes: int = 2) -> None:
    was = checkpoint(vnf)["passes"]
    vnf.wait_for(lambda: checkpoint(vnf)["passes"] >= was + passes, "a checkpoint", 60)


def endpoints(frames: list[bytes]) -> dict[bytes, set[bytes]]:
    """By flow, which its payload names: the addresses and ports it was seen with."""
    seen: dict[bytes, set[bytes]] = {}
    for frame in frames:
        at = 34 + (8 if frame[23] == 17 else 20)
        seen.setdefault(frame[at : at + 4], set()).add(frame[26:34] + frame[34:38])
    return seen


def test_mappings_are_the_killed_ones(start_engine: Start, cpus: list[int], tmp_path: Path) -> None:
    """A firewall and a NAT are killed in full flow, again and again: each flow has one outside
    endpoint from its first packet to its last, no two have the same, and none was let in anew."""
    frames = [
        with_ports(
            f"10.0.0.{i + 1}", "198.19.0.1", 5000 + i, 80, i.to_bytes(4) + bytes(16),
            0x10 if i % 2 else None,
        )
        for i in range(FLOWS)
    ]  # fmt: skip
    file, out, socket = (tmp_path / name for name in ("in.pcap", "out.pcap", "vf.sock"))
    write_frames(file, frames)
    plan = vnf_plan(cpus[-1], socket, [FIREWALL, NAT], checkpoint_ms=MS)
    with start_engine(replayed(file, out, cpus[0], socket, checkpoint_mb=4)) as host:

        def vf() -> dict[str, Any]:
            return dict(host.read()["links"]["vf"])

        vnf = started(start_engine, plan)
        host.wait_for(lambda: vf()["up"], "the VNF", 60)
        host.call("start", sources={"gen": {"rate_pps": 4000, "duration_s": 600}})
        for _ in range(RESTARTS):
            had = vf()["rx_packets"]
            host.wait_for(lambda had=had: vf()["rx_packets"] > had + 4 * FLOWS, "packets", 60)
            wait_for_pass(vnf)
            kill(vnf)
            vnf = started(start_engine, plan)
            told = checkpoint(vnf)["restored"]
            assert told["live"] == told["restored"] == 2 * FLOWS, told  # of each function
            assert told["lost"] == told["refused"] == told["expired"] == 0
            assert told["oldest_ns"] > 0
        had = vf()["rx_packets"]
        host.wait_for(lambda: vf()["rx_packets"] > had + 4 * FLOWS, "packets", 60)
        host.call("stop")
        host.wait_for(lambda: host.read()["links"]["gen"]["state"] == "done", "the end", 60)
        reading = vnf.read()
        [replica] = reading["segments"]["vnf"]
        assert replica["nfs"]["fn0"]["counters"]["new-flows"] == 0
        assert replica["nfs"]["fn1"]["counters"]["new-sessions"] == 0
        assert replica["nfs"]["fn1"]["counters"]["sessions"] == FLOWS
        assert not any(nf_imbalance(reading).values())
        vnf.__exit__(None, None, None)
    came = read_frames(out)
    seen = endpoints(came)
    assert len(seen) == FLOWS and all(len(one) == 1 for one in seen.values())
    assert len(set.union(*seen.values())) == FLOWS
    assert all(map(with_right_sums, came))


def test_what_was_lost_is_counted(start_engine: Start, cpus: list[int], tmp_path: Path) -> None:
    """Flows that began behind the last checkpoint; and all of them, without the host's memory."""
    socket = tmp_path / "vf.sock"
    source = {"frame_bytes": [64], "flows": FLOWS}
    rare = vnf_plan(cpus[-1], socket, [NAT], checkpoint_ms=60_000)
    often = vnf_plan(cpus[-1], socket, [NAT], checkpoint_ms=10)
    with start_engine(host_plan(cpus[0], socket, source, checkpoint_mb=1)) as host:
        vnf = started(start_engine, rare)
        host.wait_for(lambda: host.read()["links"]["vf"]["up"], "the VNF", 60)
        host.call("start", sources={"gen": {"rate_pps": 2000, "packets": 4 * FLOWS}})

        def sessions() -> int:
            [replica] = vnf.read()["segments"]["vnf"]
            return int(replica["nfs"]["fn0"]["counters"]["sessions"])

        vnf.wait_for(lambda: sessions() == FLOWS, "all flows", 60)
        kill(vnf)
        vnf = started(start_engine, often)
        told = checkpoint(vnf)["restored"]
        assert (told["live"], told["restored"]) == (FLOWS, FLOWS - told["lost"])
        assert told["lost"] > FLOWS / 2
        left = told["restored"]
        wait_for_pass(vnf)
        kill(vnf)
        vnf = started(start_engine, often)
        told = checkpoint(vnf)["restored"]
        assert (told["live"], told["restored"], told["lost"]) == (left, left, 0)
        vnf.__exit__(None, None, None)
    with start_engine(host_plan(cpus[0], socket, source)) as host:
        vnf = started(start_engine, often)
        told = checkpoint(vnf)
        assert told["slots"] == told["restored"]["live"] == 0
        vnf.__exit__(None, None, None)


def test_memory_is_the_hosts_to_bound(start_engine: Start, cpus: list[int], tmp_path: Path) -> None:
    """A VNF may put anything into it, and neither grows nor shrinks it; who comes next starts, and
    takes over nothing."""
    socket = tmp_path / "vf.sock"
    source = {"frame_bytes": [64], "flows": FLOWS}
    plan = vnf_plan(cpus[-1], socket, [NAT], checkpoint_ms=MS)
    with start_engine(host_plan(cpus[0], socket, source, checkpoint_mb=1)) as host:
        vnf = started(start_engine, plan)
        [path] = [
            one
            for one in Path(f"/proc/{host.process.pid}/fd").iterdir()
            if "headrace-kept" in str(one.readlink())
        ]
        with path.open("r+b") as kept:
            assert os.fstat(kept.fileno()).st_size == 1 << 20
            for size in (0, 1 << 30):
                with pytest.raises(PermissionError):
                    os.ftruncate(kept.fileno(), size)
            kept.seek(4)
            kept.write(os.urandom((1 << 20) - 4))
            kept.flush()
        kill(vnf)
        vnf = started(start_engine, plan)
        assert checkpoint(vnf)["restored"]["restored"] == 0
        host.wait_for(lambda: host.read()["links"]["vf"]["up"], "the VNF", 60)
        host.call("start", sources={"gen": {"rate_pps": 2000, "packets": 4 * FLOWS}})
        host.wait_for(
            lambda: host.read()["links"]["meas"]["received"] >= 3 * FLOWS, "its packets", 60
        )
        vnf.__exit__(None, None, None)


def test_functions_without_checkpoints_are_named(
    start_engine: Start, cpus: list[int], tmp_path: Path
) -> None:
    socket = tmp_path / "vf.sock"
    inspection = {"type": "dpi", "params": {"rules": [RULE]}}
    with (
        start_engine(host_plan(cpus[0], socket, {"frame_bytes": [64]}, checkpoint_mb=1)),
        pytest.raises(EngineError, match="fn0: checkpoints of a segment with a dpi"),
    ):
        started(start_engine, vnf_plan(cpus[-1], socket, [inspection], checkpoint_ms=MS))
