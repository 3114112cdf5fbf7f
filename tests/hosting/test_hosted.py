# SPDX-License-Identifier: Apache-2.0
"""Chains hosted in processes, as a user runs them: topologies, features, what is refused, and what
is left of VNFs that were killed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest

from support.lab import headrace, killed_vnfs, state_left

ATTEMPTS = 3
ACL = "{acl: {rules: [{action: permit}], default: deny}}"


def spec(chain: str, hosting: str, more: str = "", network: str = "veb") -> str:
    return f"""
name: hosted
chain: {chain}
deployment:
  hosting: {hosting}
  network: {network}
  hugepages: false
  {more}
workload: {{frame: [128], flows: 60}}
warmup: 0
measure: {{loads: [2000], trial: 0.5, drain: 1.0}}
"""


def run(folder: Path, engine: Path, text: str, attempts: int = ATTEMPTS) -> dict[str, Any]:
    """Once more where the machine paused so long that a queue was full, or a path looked cut: what
    is tested is where packets go, not that this machine has time for them."""
    (folder / "spec.yaml").write_text(text)
    for _ in range(attempts):
        shutil.rmtree(folder / "b", ignore_errors=True)
        done = headrace(
            "run", "spec.yaml", "--out", "b", "--json", folder=folder, engine=engine, timeout=900
        )
        assert state_left(folder) == []
        found: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {}
        if found and not any(result["loss_ratio"] for result in found["results"]):
            break
    assert done.returncode == 0, done.stderr
    return found


@pytest.mark.parametrize(
    ("chain", "hosting", "more", "network", "vnfs"),
    [
        ("[l2fwd]", "process", "", "veb", 1),
        ("[l2fwd]", "{kind: process, chains: 4, active: 3}", "", "veb", 4),
        (f"['null', {ACL}]", "{kind: process, wait: interrupt}", "execution: pipeline", "veb", 2),
        (f"['null', {ACL}]", "{kind: process, chains: 2}", "execution: pipeline", "vepa", 4),
        (
            f"['null', {ACL}, monitor]",
            "{kind: process, placement: random}",
            "execution: {segments: [['null'], [acl, monitor]]}",
            "veb",
            2,
        ),
        ("['null', 'null', 'null', 'null', 'null']", "process", "execution: pipeline", "veb", 5),
    ],
    ids=["pvp", "parallel", "pvvp-veb", "pvvp-vepa", "multi-feature", "snake"],
)
def test_topologies(
    engine_binary: Path,
    tmp_path: Path,
    chain: str,
    hosting: str,
    more: str,
    network: str,
    vnfs: int,
) -> None:
    [result] = run(tmp_path, engine_binary, spec(chain, hosting, more, network))["results"]
    assert result["received_pps"] > 0
    assert result["loss_ratio"] == 0
    trials = duckdb.sql(
        f"select counters, anatomy, latency_ns.mean as mean, segments, received, lost, reordered "
        f"from '{tmp_path}/b/trials.parquet' where phase = 'fixed'"
    ).fetchall()
    [(counters, anatomy, mean, segments, received, lost, reordered)] = trials
    counters = json.loads(counters) if isinstance(counters, str) else counters
    hosted = [s for s in segments if s["hosting"] == "process"]
    assert len(hosted) == vnfs
    passed = {
        r["segment"]: r["packets_in"]
        for r in counters["replicas"]
        if r["segment"].startswith("vnf")
    }
    assert len(passed) == vnfs
    # Every packet went through each VNF of its chain, and standing ones saw none.
    active = [name for name in passed if not ("active" in hosting and name.startswith("vnf4"))]
    chains = {name.split(".")[0] for name in active}
    length = len(active) // len(chains)
    assert lost == 0 and reordered == 0
    assert sum(passed[name] for name in active) == received * length
    assert all(passed[name] == 0 for name in passed if name not in active)
    parts = sum(anatomy[k] for k in ("generator_ns", "queue_ns", "scheduler_ns", "vnf_ns"))
    assert parts + anatomy["switch_ns"] == pytest.approx(mean, rel=0.01)
    assert anatomy["vnf_ns"] > 0


@pytest.mark.parametrize(
    ("chain", "hosting", "more", "network"),
    [
        ("[l2fwd]", "{kind: process, chains: 2}", "", "veb"),
        (f"['null', {ACL}]", "process", "execution: pipeline", "veb"),
        ("['null', monitor, l2fwd]", "process",
         "execution: {segments: [['null', monitor], [l2fwd]]}", "vepa"),
    ],
    ids=["pvp", "pvvp-veb", "pvvp-vepa"],
)  # fmt: skip
def test_both_ways(
    engine_binary: Path, tmp_path: Path, chain: str, hosting: str, more: str, network: str
) -> None:
    """Each direction comes in by its own wire and leaves by the other; all VNFs see both."""
    text = spec(chain, hosting, more, network)
    text = text.replace("flows: 60", "flows: 60, direction: both")
    results = run(tmp_path, engine_binary, text)["results"]
    assert [r["direction"] for r in results] == ["forward", "reverse", "both"]
    assert all(r["loss_ratio"] == 0 and r["received_pps"] > 0 for r in results)
    rows = duckdb.sql(
        f"select direction, counters, anatomy, latency_ns.mean, received, reordered "
        f"from '{tmp_path}/b/trials.parquet' where phase = 'fixed'"
    ).fetchall()
    came = {direction: received for direction, *_, received, _ in rows}
    assert came["both"] == came["forward"] + came["reverse"]
    counters = json.loads(rows[0][1]) if isinstance(rows[0][1], str) else rows[0][1]
    vnfs = [r for r in counters["replicas"] if r["segment"].startswith("vnf")]
    inputs = [r["inputs"] for r in vnfs]
    chains = 2 if "chains" in hosting else 1
    length = len(vnfs) // chains
    for name, direction in (("left", "forward"), ("right", "reverse")):
        assert sum(one[name] for one in inputs) == came[direction] * length
    for _, _, anatomy, mean, _, reordered in rows:
        assert reordered == 0
        parts = sum(anatomy[k] for k in ("generator_ns", "queue_ns", "scheduler_ns", "vnf_ns"))
        assert parts + anatomy["switch_ns"] == pytest.approx(mean, rel=0.01)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (spec("['null']", "pod"), "allowed: inline, process, container"),
        (spec("['null']", "{kind: process, chains: 64}"), "hosting.chains"),
        (
            spec("['null', 'null']", "{kind: process, chains: 40}", "execution: pipeline"),
            "40 chains of 2 VNFs are 80; allowed: 63 VNFs",
        ),
        (spec("['null']", "{kind: process, active: 2}"), "active: 2 of 1 chains"),
        (spec("['null']", "{kind: process, placement: explicit}"), "go together"),
        (
            spec("['null']", "{kind: process, oversubscription: twice}"),
            'allowed: "1:1", "2:1", "4:1"',
        ),
        (
            spec("['null']", "{kind: process, chains: 32}").replace(
                "flows: 60", "flows: 60, direction: both"
            ),
            "allowed: 31 VNFs, the virtual functions of a port, two for each VNF with traffic both",
        ),
        (spec("['null']", "{kind: process, memory_limit_mb: 127}"), "memory_limit_mb"),
        (
            spec("['null']", "{kind: process, memory_mb: 128, memory_limit_mb: 128}"),
            "memory_limit_mb: 128; allowed: at least 192",
        ),
        (spec("['null']", "{kind: process, cpus: 2}"), "hosting.cpus"),
        (spec("['null']", "{kind: process, slots: 1000}"), "slots: 1000; allowed: a power of two"),
    ],
)
def test_refused(engine_binary: Path, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "spec.yaml").write_text(text)
    done = headrace("run", "spec.yaml", "--out", "b", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert state_left(tmp_path) == []


def test_uplink_limits(engine_binary: Path, tmp_path: Path) -> None:
    """20 Mbit/s offered on a wire of 10: what is lost is lost there, and said to be."""
    text = spec("['null']", "{kind: process, uplink_gbps: 0.01}")
    text = text.replace("loads: [2000]", "loads: [16900]").replace("trial: 0.5", "trial: 2")
    [result] = run(tmp_path, engine_binary, text, attempts=1)["results"]
    if result["sent_pps"] < 12000:
        pytest.skip(f"the machine made {result['sent_pps']:.0f} of 16900 packets/s only")
    assert set(result["drops"]) == {"nic/uplink-in"}
    assert result["throughput_gbps_l1"] < 0.0115


def test_killed_vnfs(engine_binary: Path, tmp_path: Path) -> None:
    """A few seconds of what `headrace hosting chaos` does for ten minutes."""
    (tmp_path / "spec.yaml").write_text(spec("[l2fwd]", "{kind: process, chains: 3}"))
    outcome = killed_vnfs(tmp_path, engine_binary, 8, 5000, 3)
    assert outcome["mbufs_after"] <= outcome["mbufs_before"]
