# SPDX-License-Identifier: Apache-2.0
"""Limits of a hosted chain's NIC and licences, as a user meets them: what they leave of a chain,
what they are called, and that packets wait for them before any is lost."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from headrace.host.openvswitch import dpdk_lacking
from headrace.record.bundle import Bundle
from headrace.record.figures import L1_OVERHEAD_BYTES
from headrace.record.rows import Result
from support.containers import lacking
from support.lab import headrace
from support.netns import netns_refusal

FRAME = 128
GBPS = 0.02
LIMIT_PPS = GBPS * 1e9 / 8 / (FRAME + L1_OVERHEAD_BYTES)
LOW, HIGH = 4000, 24000  # packets/s: below a half of the limit, and above all of it
CLOSE = 0.03
KEPT = 0.02
ATTEMPTS = 3
ADVICE = "hosting.chains"


def measured(
    folder: Path,
    engine: Path,
    hosting: str,
    network: str,
    executions: list[str],
    frame: int = FRAME,
    loads: tuple[int, int] = (LOW, HIGH),
    kind: str = "process",
) -> dict[str, list[Result]]:
    """Results by execution, the lower load first."""
    shutil.rmtree(folder / "b", ignore_errors=True)
    (folder / "spec.yaml").write_text(
        f"""
name: limits
chain: ['null', l2fwd]
deployment:
  hosting: {{kind: {kind}, {hosting}}}
  network: {network}
  execution: [{", ".join(executions)}]
  hugepages: false
workload: {{frame: [{frame}], flows: 60}}
warmup: 0
measure: {{loads: [{loads[0]}, {loads[1]}], trial: 1, drain: 0.5}}
"""
    )
    done = headrace("run", "spec.yaml", "--out", "b", folder=folder, engine=engine, timeout=300)
    assert done.returncode == 0, done.stderr
    by_name: dict[str, list[Result]] = {}
    for one in Bundle(folder / "b").results():
        by_name.setdefault(one.execution, []).append(one)
    return by_name


@pytest.mark.parametrize(
    ("hosting", "network", "shares", "kind", "reason", "named", "remedy"),
    [
        (
            f"switch_gbps: {GBPS}", "veb", {"rtc": 1, "pipeline": 0.5}, "switch", "capacity",
            f"Switch capacity of the NIC, {GBPS} Gbit/s, reached.", "execution: rtc",
        ),
        (
            f"rate_cap_gbps: {GBPS}", "veb", {"pipeline": 1}, "rate-cap", "in-rate-limit",
            f"Rate cap of vnf1.1, {GBPS} Gbit/s, reached.", "rate_cap_gbps",
        ),
        (
            f"uplink_gbps: {GBPS}", "vepa", {"rtc": 1}, "uplink", "uplink-in",
            f"Uplink of the NIC, {GBPS} Gbit/s, reached.", "hosting.uplink_gbps",
        ),
    ],
    ids=["switch", "licence", "uplink"],
)  # fmt: skip
def test_a_limit_is_kept_and_named(
    engine_binary: Path,
    tmp_path: Path,
    hosting: str,
    network: str,
    shares: dict[str, float],
    kind: str,
    reason: str,
    named: str,
    remedy: str,
) -> None:
    for _ in range(ATTEMPTS):  # the machine may pause for longer than queues hold
        by_name = measured(
            tmp_path, engine_binary, f"slots: 4096, {hosting}", network, list(shares)
        )
        if all(
            low.loss_ratio == 0 and high.throughput_pps > (1 - CLOSE) * shares[name] * LIMIT_PPS
            for name, (low, high) in by_name.items()
        ):
            break
    for execution, share in shares.items():
        low, high = by_name[execution]
        if high.sent_pps < 1.2 * LIMIT_PPS:
            pytest.skip(f"the machine made {high.sent_pps:.0f} of {HIGH} packets/s only")
        assert high.throughput_pps == pytest.approx(share * LIMIT_PPS, rel=CLOSE)
        assert low.loss_ratio == 0 and low.latency_ns and high.latency_ns
        # 512 frames wait at the least, at the limit's rate or less.
        assert high.latency_ns.p50 > 0.9 * 512 / LIMIT_PPS * 1e9 > 2 * low.latency_ns.p50
        assert high.drops.keys() == {f"nic/{reason}"}
        assert high.drops[f"nic/{reason}"] == high.lost
        [limit] = high.limits
        assert (limit.kind, limit.gbps, limit.dropped) == (kind, GBPS, high.lost)
        assert limit.used >= 0.97
        assert low.limits[0].used == pytest.approx(LOW / LIMIT_PPS / share, rel=CLOSE)
    bottlenecks = report(tmp_path, engine_binary)
    assert [one["headline"] for one in bottlenecks] == [named] * len(shares)
    first = explained(tmp_path, engine_binary)
    assert first and {one["text"] for one in first} >= {named}
    for one in first:
        assert "replicas" not in one["remedy"]
    remedies = [one["remedy"] for one in first if one["text"] == named]
    has_it_already = remedy == "execution: rtc"  # one of the two deployments
    assert sum(remedy in text for text in remedies) == len(remedies) - has_it_already > 0


LICENSED_GBPS, LONG = 0.1, 1518
LICENSED_PPS = LICENSED_GBPS * 1e9 / 8 / (LONG + L1_OVERHEAD_BYTES)
BUCKET_S = 0.01  # a trial begins with a full one: this many seconds' worth


@pytest.mark.needs_root
@pytest.mark.parametrize("network", ["bridge", "ovs-dpdk"])
@pytest.mark.parametrize("kind", ["process", pytest.param("container", marks=pytest.mark.slow)])
def test_a_licence_is_kept_behind_other_switches(
    engine_binary: Path,
    tmp_path: Path,
    kind: str,
    network: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The known answer is what came in a second, in layer 1's bits; and what the switch's own
    statistics say it dropped is all that did not come."""
    monkeypatch.setenv("HEADRACE_ENGINE", str(engine_binary))  # of which the image is
    missing = lacking("headrace") if kind == "container" else None
    if refusal := (
        netns_refusal() or (dpdk_lacking() if network == "ovs-dpdk" else None) or missing
    ):
        pytest.skip(refusal)
    loads = round(LICENSED_PPS / 2), round(LICENSED_PPS * 2)
    hosting = f"rate_cap_gbps: {LICENSED_GBPS}"
    for _ in range(ATTEMPTS):  # the machine may pause for longer than the bucket has
        [(low, high)] = measured(
            tmp_path, engine_binary, hosting, network, ["rtc"], LONG, loads, kind
        ).values()
        if not low.lost and high.throughput_pps > (1 - KEPT) * LICENSED_PPS:
            break
    if high.sent_pps < 1.2 * LICENSED_PPS:
        pytest.skip(f"the machine made {high.sent_pps:.0f} of {loads[1]} packets/s only")
    most = LICENSED_PPS * (1 + BUCKET_S / (high.duration_s or 1))
    assert (1 - KEPT) * LICENSED_PPS < high.throughput_pps < most * (1 + KEPT)
    assert low.lost == 0 and low.limits[0].used == pytest.approx(0.5, rel=CLOSE)
    assert high.drops == {"vnf1.1:vf/tx-capped": high.lost}
    assert [account.unknown for account in high.accounts] == [0]
    [limit] = high.limits
    assert (limit.kind, limit.place, limit.dropped) == ("rate-cap", "vnf1.1", high.lost)
    assert limit.used == pytest.approx(high.sent_pps / LICENSED_PPS, rel=CLOSE)
    named = f"Rate cap of vnf1.1, {LICENSED_GBPS} Gbit/s, reached."
    assert [one["headline"] for one in report(tmp_path, engine_binary)] == [named]
    assert named in {one["text"] for one in explained(tmp_path, engine_binary)}
    assert not [path for path in Path("/run/netns").glob("hr*") if "-vnf1.1" in path.name]


def report(folder: Path, engine: Path) -> list[dict[str, Any]]:
    done = headrace("report", "b", "--json", folder=folder, engine=engine)
    assert done.returncode == 0, done.stderr
    bottlenecks: list[dict[str, Any]] = json.loads(done.stdout)["bottlenecks"]
    return bottlenecks


def explained(folder: Path, engine: Path) -> list[dict[str, Any]]:
    done = headrace("explain", "b", "--json", folder=folder, engine=engine)
    assert done.returncode == 0, done.stderr
    diagnoses: list[dict[str, Any]] = json.loads(done.stdout)
    return [one for one in diagnoses if one["rule"] == "limit-reached"]


def test_what_the_deployment_refuses_is_not_advised(engine_binary: Path, tmp_path: Path) -> None:
    """A VNF has one lcore: no replicas, wherever it is slow."""
    (tmp_path / "spec.yaml").write_text(
        f"""
name: slow
chain: [{{delay: {{cycles: 100000}}}}]
deployment: {{hosting: process, hugepages: false}}
workload: {{frame: [{FRAME}], flows: 60}}
warmup: 0
measure: {{loads: [{HIGH}, 60000], trial: 1, drain: 0.5}}
"""
    )
    done = headrace("run", "spec.yaml", "--out", "b", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 0, done.stderr
    done = headrace("explain", "b", "--json", folder=tmp_path, engine=engine_binary)
    diagnoses = json.loads(done.stdout)
    slow = [one for one in diagnoses if one["rule"] in ("slow-nf", "slow-segment")]
    assert "replicas" not in done.stdout
    if slow:  # else this machine held it up, and that is what is said
        assert all(ADVICE in one["remedy"] or "lcores.traffic" in one["remedy"] for one in slow)
