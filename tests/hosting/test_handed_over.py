# SPDX-License-Identifier: Apache-2.0
"""A VNF's process gives its flows to another one while traffic runs, and no packet is lost."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from support.engine import Engine, EngineError, memory_engine, nf_imbalance
from support.one_vnf import host_plan, vnf_plan

pytestmark = pytest.mark.beside

Start = Callable[..., Engine]
FLOWS, RATE_PPS, WAITING = 1000, 4000, 4096
TIMES = 100 if os.environ.get("HEADRACE_SLOW") else 5
FUNCTIONS = [
    {"type": "firewall", "params": {"rules": [{"action": "permit"}]}},
    {"type": "nat", "params": {"pool": ["203.0.113.1"]}},
    {"type": "monitor", "params": {}},
]
TABLES = 3  # of functions that keep each flow
LONG_MS = 10_000  # where a machine that others load may stand still
SOURCE = {"frame_bytes": [128], "flows": FLOWS, "vary": ["src_port"]}


def _started(start: Start, plan: dict[str, Any]) -> Engine:
    vnf = start(plan)
    vnf.__enter__()
    return vnf


def _ended(vnf: Engine) -> None:
    assert vnf.process.wait(timeout=60) == 0
    vnf.socket.close()


def _leave(host: Engine, vnf: Engine) -> dict[str, Any]:
    host.call("hold", link="vf")
    left = vnf.call("leave", within_ms=LONG_MS)
    _ended(vnf)
    return left


def _handed_over(
    start: Start, plan: dict[str, Any], host: Engine, vnf: Engine
) -> tuple[Engine, dict[str, Any], dict[str, Any]]:
    """The next one, and what the former said when it left, and the host of those that waited. The
    next one is started meanwhile, by this thread, whose child it lives as long as: it waits for the
    link."""
    own = {"file_prefix": memory_engine()["file_prefix"]}  # both run for a while
    plan = {**plan, "engine": plan["engine"] | own}
    with ThreadPoolExecutor(1) as pool:
        leaving = pool.submit(_leave, host, vnf)
        after = _started(start, plan)
        left = leaving.result()
    return after, left, host.call("release", link="vf", within_ms=LONG_MS)


def test_nothing_is_lost(start_engine: Start, cpus: list[int], tmp_path: Path) -> None:
    """Sent is received, in each flow's order, with the sessions that it began with."""
    socket = tmp_path / "vf.sock"
    plan = vnf_plan(cpus[-1], socket, FUNCTIONS, checkpoint_ms=60_000)  # none of them by itself
    waited = []
    with start_engine(host_plan(cpus[0], socket, SOURCE, checkpoint_mb=4)) as host:
        vnf = _started(start_engine, plan)
        host.wait_for(lambda: host.read()["links"]["vf"]["up"], "the VNF", 60)
        host.call("start", sources={"gen": {"rate_pps": RATE_PPS, "duration_s": 600}})
        for _ in range(TIMES):
            had = host.read()["links"]["meas"]["received"]
            host.wait_for(
                lambda had=had: host.read()["links"]["meas"]["received"] > had + 2 * FLOWS,
                "packets", 60,
            )  # fmt: skip
            vnf, left, released = _handed_over(start_engine, plan, host, vnf)
            [replica] = vnf.read()["segments"]["vnf"]
            told = replica["checkpoint"]["restored"]
            assert left["flows"] == TABLES * FLOWS, left
            assert told["live"] == told["restored"] == TABLES * FLOWS, told
            assert told["lost"] == told["refused"] == told["expired"] == 0
            assert "late" not in released
            waited.append(released["waited"])
        host.call("stop")
        host.wait_for(lambda: host.read()["links"]["gen"]["state"] == "done", "the end", 60)
        sent = host.read()["links"]["gen"]["sent"]
        host.wait_for(lambda: host.read()["links"]["meas"]["received"] >= sent, "the rest", 60)
        reading, own = host.read(), vnf.read()
        vnf.__exit__(None, None, None)
    sink = reading["links"]["meas"]
    assert sink["received"] == sent
    assert (sink["lost"], sink["reordered"], sink["duplicated"]) == (0, 0, 0)
    nfs = own["segments"]["vnf"][0]["nfs"]
    assert nfs["fn0"]["counters"]["new-flows"] == nfs["fn1"]["counters"]["new-sessions"] == 0
    assert nfs["fn1"]["counters"]["sessions"] == FLOWS
    assert not any(nf_imbalance(own).values())
    # Packets waited each time, and none does any more.
    assert all(before < after for before, after in zip([0, *waited], waited, strict=False))
    assert reading["links"]["vf"]["hold"]["now"] == reading["links"]["vf"]["used"] == 0
    print(f"{TIMES} times: {waited[-1]} of {sent} packets waited, {sink['lost']} were lost")


def test_what_waits_is_bounded_and_counted(
    start_engine: Start, cpus: list[int], tmp_path: Path
) -> None:
    socket = tmp_path / "vf.sock"
    plan = vnf_plan(cpus[-1], socket, FUNCTIONS, checkpoint_ms=60_000)
    with start_engine(host_plan(cpus[0], socket, SOURCE, checkpoint_mb=4)) as host:
        vnf = _started(start_engine, plan)
        host.wait_for(lambda: host.read()["links"]["vf"]["up"], "the VNF", 60)
        host.call("hold", link="vf")
        host.call("start", sources={"gen": {"rate_pps": 0, "packets": 2 * WAITING}})
        host.wait_for(lambda: host.read()["links"]["gen"]["state"] == "done", "packets", 60)
        reading = host.read()
        assert reading["links"]["vf"]["hold"]["now"] == WAITING
        assert reading["segments"]["out"][0]["outputs"]["vf"]["full"] == WAITING
        assert vnf.read()["segments"]["vnf"][0]["in"] == 0
        released = host.call("release", link="vf", within_ms=LONG_MS)
        assert (released["waited"], released["most"]) == (WAITING, WAITING)
        assert "late" not in released
        host.wait_for(
            lambda: host.read()["links"]["meas"]["received"] >= WAITING, "what waited", 60
        )
        assert host.read()["links"]["meas"]["reordered"] == 0
        vnf.__exit__(None, None, None)


def test_what_cannot_be_is_named(start_engine: Start, cpus: list[int], tmp_path: Path) -> None:
    socket = tmp_path / "vf.sock"
    plan = vnf_plan(cpus[-1], socket, FUNCTIONS, checkpoint_ms=60_000)
    with start_engine(host_plan(cpus[0], socket, SOURCE, checkpoint_mb=4)) as host:
        vnf = _started(start_engine, plan)
        host.wait_for(lambda: host.read()["links"]["vf"]["up"], "the VNF", 60)
        for command, link, says in (
            ("hold", "meas", '"meas" is a sink; allowed: an shm link'),
            ("hold", "none", "there is no link"),
            ("release", "vf", "its packets do not wait; allowed: behind `hold`"),
        ):
            with pytest.raises(EngineError, match=says):
                host.call(command, link=link)
        host.call("hold", link="vf")
        with pytest.raises(EngineError, match="wait already; allowed: `release`"):
            host.call("hold", link="vf")
        assert host.call("release", link="vf")["waited"] == 0
        with pytest.raises(EngineError, match="gen: is a source, by which more may come"):
            host.call("leave")
        # Who has packets to come goes on, whatever it answers.
        host.call("start", sources={"gen": {"rate_pps": 0, "duration_s": 600}})
        host.wait_for(lambda: vnf.read()["segments"]["vnf"][0]["in"] > 1000, "packets", 60)
        with pytest.raises(EngineError, match=r"vf: has packets after 50 ms; .*it goes on"):
            vnf.call("leave", within_ms=50)
        had = vnf.read()["segments"]["vnf"][0]["in"]
        host.wait_for(lambda: vnf.read()["segments"]["vnf"][0]["in"] > had + 1000, "more", 60)
        vnf.__exit__(None, None, None)
