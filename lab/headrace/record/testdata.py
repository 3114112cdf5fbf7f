# SPDX-License-Identifier: Apache-2.0
"""A bundle for the tests of the report, computed from a small cost model with fixed seeds.

Nothing of this is a measurement; it is in no report but those that the tests make.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hdrh.histogram import HdrHistogram

from headrace.record.bundle import BundleWriter
from headrace.record.counters import (
    Counters,
    NfReading,
    OutputReading,
    ReplicaReading,
    RingReading,
    WorkerReading,
)
from headrace.record.environment import Environment
from headrace.record.estimates import Capacity, Interval, PartCapacity
from headrace.record.figures import LatencyFloor, LatencyNs, PdvNs, gbps
from headrace.record.rows import Bounds, Goal, Result, Trial
from headrace.record.segments import Segment
from headrace.record.verdict import Audit, Finding

TSC_HZ = 2_450_000_000
FRAME_BYTES = 64
TRIAL_S = 2.0
NF_CYCLES = {"acl": 48.0, "lb": 31.0, "l3fwd": 24.0}
NF_EDGE = {"acl": "pass", "lb": "out", "l3fwd": "out"}
IO_CYCLES, LOOP_CYCLES, GENERATOR_CYCLES, SINK_CYCLES = 22.0, 6.0, 58.0, 34.0
GENERATOR_MAX_PPS = TSC_HZ / GENERATOR_CYCLES
DENIED = 0.002  # of the packets, by the acl
EXECUTIONS: dict[str, list[tuple[list[str], int]]] = {
    "rtc": [(["acl", "lb", "l3fwd"], 1)],
    "hybrid": [(["acl"], 1), (["lb", "l3fwd"], 1)],
    "pipeline": [(["acl"], 1), (["lb"], 1), (["l3fwd"], 1)],
    "rtc x 3": [(["acl", "lb", "l3fwd"], 3)],
}
GOALS = {
    "ndr": Goal(
        name="ndr",
        loss_ratio=0.0,
        exceed_ratio=0.5,
        final_trial_s=2.0,
        duration_sum_s=10.0,
        width=0.01,
        initial_trial_s=1.0,
    ),
    "pdr": Goal(
        name="pdr",
        loss_ratio=0.005,
        exceed_ratio=0.5,
        final_trial_s=2.0,
        duration_sum_s=10.0,
        width=0.01,
        initial_trial_s=1.0,
    ),
}


def segments_of(cut: Sequence[tuple[list[str], int]]) -> tuple[Segment, ...]:
    chain, cpu = [], 2
    for nfs, replicas in cut:
        cpus = tuple(range(cpu, cpu + replicas))
        chain.append(Segment(name="+".join(nfs), cpus=cpus, nfs=tuple(nfs)))
        cpu += replicas
    return (
        Segment(name="generator", cpus=(0,), role="generator"),
        *chain,
        Segment(name="sink", cpus=(1,), role="sink"),
    )


def cost(nfs: Sequence[str]) -> float:
    return sum(NF_CYCLES[n] for n in nfs) + IO_CYCLES + LOOP_CYCLES


def capacity(cut: Sequence[tuple[list[str], int]]) -> float:
    return min(replicas * TSC_HZ / cost(nfs) for nfs, replicas in cut)


def _replica(
    segment: Segment,
    index: int,
    packets: int,
    ring_in: str | None,
    ring_out: str | None,
    jit: float,
) -> ReplicaReading:
    nfs: dict[str, NfReading] = {}
    entering = packets
    for name in segment.nfs:
        denied = int(entering * DENIED) if name == "acl" else 0
        nfs[name] = NfReading(
            type=name,
            packets_in=entering,
            out={NF_EDGE[name]: entering - denied},
            dropped={"denied": denied} if denied else {},
            batches=entering // 28,
            cycles=int(NF_CYCLES[name] * jit * entering / 16),
            cycles_packets=entering // 16,
        )
        entering -= denied
    own = {"generator": GENERATOR_CYCLES, "sink": SINK_CYCLES}.get(segment.role, IO_CYCLES) * jit
    busy = (own + (0 if segment.role != "chain" else cost(segment.nfs) - IO_CYCLES)) * packets
    return ReplicaReading(
        segment=segment.name,
        index=index,
        cpu=segment.cpus[index],
        packets_in=packets,
        packets_out=entering,
        polls=packets // 20,
        idle_polls=packets // 60,
        ops_cycles=int(busy),
        rx_cycles=int(own * 0.55 * packets / 16),
        tx_cycles=int(own * 0.45 * packets / 16),
        io_packets=packets // 16,
        inputs={ring_in: packets} if ring_in else {},
        outputs={ring_out: OutputReading(packets=entering)} if ring_out else {},
        nfs=nfs,
    )


def counters_of(
    segments: Sequence[Segment], sent: int, narrowest_loss: int, jit: float
) -> Counters:
    names = [s.name for s in segments]
    rings = {f"to-{name}": RingReading(size=4096) for name in names[1:]}
    widest_cost = max(segments[1:-1], key=lambda s: cost(s.nfs) / len(s.cpus))
    if narrowest_loss:
        rings[f"to-{widest_cost.name}"] = RingReading(size=4096, full=narrowest_loss, used=4095)
    replicas: list[ReplicaReading] = []
    packets = sent
    for i, segment in enumerate(segments):
        if segment is widest_cost:
            packets -= narrowest_loss
        ring_in = f"to-{segment.name}" if i else None
        ring_out = f"to-{names[i + 1]}" if i + 1 < len(names) else None
        rows = [
            _replica(segment, k, packets // len(segment.cpus), ring_in, ring_out, jit)
            for k in range(len(segment.cpus))
        ]
        replicas += rows
        packets = sum(r.packets_out for r in rows)
    workers = tuple(
        WorkerReading(
            cpu=r.cpu,
            ref_cycles=int(TSC_HZ * TRIAL_S),
            ops_cycles=min(r.ops_cycles, int(TSC_HZ * TRIAL_S)),
            segments=(f"{r.segment}.{r.index}",),
        )
        for r in replicas
    )
    return Counters(tsc_hz=TSC_HZ, workers=workers, replicas=tuple(replicas), rings=rings)


def capacity_of(segments: Sequence[Segment], jit: float) -> Capacity:
    """Each part's own, from 200 quiet slices of each lcore, 2 % to both sides."""
    own = {"generator": GENERATOR_CYCLES, "sink": SINK_CYCLES}
    parts = []
    for one in segments:
        cycles = (own.get(one.role) or cost(one.nfs)) * jit
        wide = len(one.cpus) * TSC_HZ / cycles
        parts.append(
            PartCapacity(
                name=one.name,
                role=one.role,
                cpus=one.cpus,
                cycles_per_packet=Interval(value=cycles, low=cycles * 0.98, high=cycles * 1.02),
                pps=Interval(value=wide, low=wide / 1.02, high=wide / 0.98),
                tsc_hz=TSC_HZ,
                clock_hz=1.25 * TSC_HZ,
                quiet_share=0.95,
                slices=200 * len(one.cpus),
                at_limit=wide < GENERATOR_MAX_PPS,
            )
        )
    narrowest = min((p for p in parts if p.role == "chain"), key=lambda p: p.pps.value)
    return Capacity(parts=tuple(parts), narrowest=narrowest.name, pps=narrowest.pps, trials=1)


def latency_of(hops: int, load: float, rng: np.random.Generator) -> tuple[HdrHistogram, LatencyNs]:
    """Batching and queueing at each hop, and now and then an interruption of an lcore."""
    n = 4_000
    base = 1_150 + rng.gamma(2.0, 420 + 600 * load, size=(hops, n)).sum(axis=0) + 600 * hops
    base += np.where(rng.random(n) < 8e-4 * hops, rng.exponential(38_000, n), 0)
    histogram = HdrHistogram(1, 3_600_000_000_000, 3)
    fine = 2 ** np.maximum(np.floor(np.log2(base)) - 10, 0)  # as wide as a bucket there
    for value, count in zip(*np.unique(base // fine * fine, return_counts=True), strict=True):
        histogram.record_value(int(value), int(count))
    p50, p90, p99, p999 = (float(v) for v in np.percentile(base, (50, 90, 99, 99.9)))
    figures = LatencyNs(
        mean=float(base.mean()),
        min=float(base.min()),
        p50=p50,
        p90=p90,
        p99=p99,
        p999=p999,
        max=float(base.max()),
    )
    return histogram, figures


def _measurement(
    execution: str, repetition: int, load: float, loss: float, rng: np.random.Generator
) -> dict[str, Any]:
    cut = EXECUTIONS[execution]
    segments = segments_of(cut)
    sent = int(load * TRIAL_S)
    lost = int(sent * loss)
    received = sent - lost - int(sent * DENIED)
    jit = 1 + float(rng.normal(0, 0.008))
    counters = counters_of(segments, sent, lost, jit)
    hdr, latency = latency_of(len(cut), load / capacity(cut), rng)
    bound = load > 0.98 * GENERATOR_MAX_PPS
    rate = received / TRIAL_S
    return {
        "chain": "edge",
        "direction": "forward",
        "repetition": repetition,
        "execution": execution,
        "workload": "64 B, 1024 flows",
        "load_pps": load,
        "throughput_pps": rate,
        "throughput_gbps_l1": gbps(rate, FRAME_BYTES, layer=1),
        "throughput_gbps_l2": gbps(rate, FRAME_BYTES),
        "offered_pps": load,
        "sent_pps": load,
        "received_pps": rate,
        "loss_ratio": loss,
        "latency_ns": latency,
        "pdv_ns": PdvNs(p50=latency.p50 - latency.min, p99=latency.p99 - latency.min),
        "ipdv_ns_mean": 0.4 * (latency.p50 - latency.min),
        "nf_cycles": {
            name: n.cycles_per_packet
            for r in counters.replicas
            for name, n in r.nfs.items()
            if n.cycles_per_packet
        },
        "utilisation": {str(w.cpu): w.utilisation for w in counters.workers},
        "drops": {"acl/denied": int(sent * DENIED)}
        | {f"{k}/full": r.full for k, r in counters.rings.items() if r.full},
        "audit": _audit(bound, sent),
        "duration_s": TRIAL_S,
        "frame_bytes_mean": FRAME_BYTES,
        "intended": sent,
        "sent": sent,
        "received": received,
        "lost": lost,
        "flows": 1024,
        "latency_hdr": hdr.encode().decode(),
        "calibration": LatencyFloor(
            floor_ns=810, floor_p99_ns=1320, clock_read_cycles=32, clock_error_ppm=0.4
        ),
        "segments": segments,
        "capacity": capacity_of(segments, jit),
        "counters": counters,
    }


def _audit(bound: bool, sent: int) -> Audit:
    checks = (
        Finding(
            check="unsent",
            ok=not bound,
            value=0.031 if bound else 0.0,
            limit=0.0,
            text="The source could not send 3.1 % of the intended packets in time."
            if bound
            else "The source sent every intended packet.",
        ),
        Finding(
            check="stretched",
            ok=True,
            value=1.0002,
            limit=1.01,
            text="Sending took 1.0002 times the intended 2 s.",
        ),
        Finding(
            check="conservation",
            ok=True,
            text="Every packet is accounted for at each function and link.",
        ),
    )
    return Audit(
        verdict="generator-bound" if bound else "ok",
        findings=checks,
        unsent=int(sent * 0.031) if bound else 0,
        behind_max_ns=2_100_000 if bound else 8_200,
        duration_ns=2_000_400_000,
        intended_duration_ns=2_000_000_000,
    )


def environment(**cpu: Any) -> Environment:
    return Environment(
        collected_at="2026-01-15T10:00:00Z",
        hostname="bench-1",
        headrace={"version": "0.1.0", "commit": "0123abcd", "python": "3.11.7"},
        engine={
            "version": "0.1.0",
            "dpdk": "DPDK 22.11.5",
            "build": "release, -O3 -march=native",
            "tsc_hz": TSC_HZ,
            "hugepages": True,
            "simd_bits": 256,
        },
        cpu={"model": "Example CPU 9", "cores": 8, "threads_per_core": 1, "numa_nodes": 1} | cpu,
        memory={"total_bytes": 33_554_432_000, "hugepages_2048kB": 512},
        kernel={"release": "6.1.0-18-amd64", "cmdline": "quiet isolcpus=2-7", "lockdown": "none"},
        mitigations={"spectre_v2": "Mitigation: Retpolines", "meltdown": "Not affected"},
        virtualisation={"hypervisor": "none"},
        noise={"load_before": 0.04, "load_after": 3.1},
    )


def make_bundle(
    path: Path, *, repetitions: int = 3, speed: float = 1.0, seed: int = 1, **cpu: Any
) -> Path:
    """`speed` scales every rate, so that two bundles differ by a known amount."""
    whole = _whole(repetitions, speed, seed, tuple(sorted(cpu.items())))
    shutil.copytree(Path(whole.name, "b"), path)
    return path


@cache
def _whole(
    repetitions: int, speed: float, seed: int, cpu: tuple[tuple[str, Any], ...]
) -> tempfile.TemporaryDirectory[str]:
    """Most tests want one that another has had. It goes when Python ends."""
    folder = tempfile.TemporaryDirectory(prefix="headrace-")
    rng = np.random.default_rng(seed)
    trials = 0
    command = ("headrace", "run", "edge.yaml")
    with BundleWriter(Path(folder.name, "b"), command=command, version="0.1.0") as bundle:
        bundle.spec(
            "chain: [acl, lb, l3fwd]\n", {"chain": {"nfs": list(NF_CYCLES)}, "speed": speed}
        )
        bundle.environment(environment(**dict(cpu)))
        for execution in EXECUTIONS:
            for repetition in range(1, repetitions + 1):
                for goal in GOALS:
                    trials = _search(bundle, trials, execution, repetition, goal, speed, rng)
        bundle.result(_prediction())
    return folder


def _search(
    bundle: BundleWriter,
    trials: int,
    execution: str,
    repetition: int,
    goal: str,
    speed: float,
    rng: np.random.Generator,
) -> int:
    """The last two trials of a search, one on each side of the rate, and its result. `trials` are
    in the bundle before; the answer is how many are there after."""
    over = {"ndr": 0.97, "pdr": 0.995}[goal]
    top = min(capacity(EXECUTIONS[execution]) * over, GENERATOR_MAX_PPS) * speed
    load = top * (1 + float(rng.normal(0, 0.007)))
    loss = GOALS[goal].loss_ratio * 0.8
    low = _measurement(execution, repetition, load, loss, rng)
    high = _measurement(execution, repetition, load * 1.01, loss + 0.013, rng)
    for number, fields in enumerate((low, high), trials + 1):
        bundle.trial(
            Trial(
                **fields,
                trial=number,
                phase="search",
                started_at="2026-01-15T10:00:00Z",
                intended_duration_s=TRIAL_S,
            )
        )
    bounds = Bounds(
        lower_pps=load,
        upper_pps=load * 1.0095,
        min_load_pps=10_000,
        max_load_pps=42e6,
        trials=17,
        seconds=31.0,
        stopped_by="width",
    )
    bundle.result(
        Result(**low, goal=goal, goal_parameters=GOALS[goal], bounds=bounds, trial=trials + 1)
    )
    return trials + 2


def _prediction() -> Result:
    pps = 24.9e6
    return Result(
        chain="edge",
        direction="forward",
        repetition=0,
        execution="hybrid",
        workload="64 B, 1024 flows",
        goal="ndr",
        ground="predicted",
        provenance="capacity model, cycles per function measured here in rtc",
        load_pps=pps,
        throughput_pps=pps,
        throughput_gbps_l1=gbps(pps, 64, layer=1),
        throughput_gbps_l2=gbps(pps, 64),
        offered_pps=pps,
        sent_pps=pps,
        received_pps=pps,
        loss_ratio=0,
        audit=Audit(verdict="not-audited"),
    )
