# SPDX-License-Identifier: Apache-2.0
"""One trial: the load, and what clients, appliances, interfaces and CPUs say of it."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from headrace.bundle import now
from headrace.measure.audit import Clock, Facts
from headrace.measure.audit import audit as judged
from headrace.measure.clocks import of_machine
from headrace.measure.collectors.base import cpu_times_s
from headrace.measure.collectors.watch import Watch
from headrace.record import L1_OVERHEAD_BYTES, Application, Audit, Finding, Trial
from headrace.spec.appliance import AnyWorkload, PacketsWorkload, StreamWorkload
from headrace.testbed.containers import cpu
from headrace.testbed.containers.deploy import Deployed
from headrace.testbed.containers.judge import Counters, judge
from headrace.testbed.containers.load import Load, run_load
from headrace.testbed.containers.plumbing import Count
from headrace.testbed.containers.study import Point, swept_text
from headrace.testbed.scheduling import snapshot

_FCS_BYTES = 4


@dataclass(frozen=True)
class Observed:
    """A trial's load, and what grew while it ran."""

    load: Load
    started_at: str
    before: Counters
    after: Counters
    cpu: dict[str, float]  # container, or process of the switch: CPUs used
    others: float  # CPUs that everybody else used
    packets: Count  # of the clients' interface
    clocks: tuple[Clock, ...] = ()  # of the machine's CPUs


def observe(
    deployed: Deployed, workload: AnyWorkload, number: int, before: Counters | None, watch: Watch
) -> Observed:
    """`number`: of the trial. `before`: the appliances' counters when nothing has happened since
    they were last read. What is watched is the load alone, without what reads the counters."""
    before = before or deployed.all_counters()
    cpu_before = _cpu_seconds(deployed)
    interfaces = deployed.interface_counts()
    started_at, began = now(), time.monotonic()
    busy, clocks = cpu.busy_seconds(), snapshot()
    with watch.trial(number):
        load = run_load(deployed, workload, workload.duration, seed=number)
    elapsed = time.monotonic() - began
    busy = (cpu.busy_seconds() - busy) / elapsed
    machine = of_machine(clocks, snapshot(), elapsed, os.sched_getaffinity(0))
    used = {
        name: (after - cpu_before[name]) / elapsed
        for name, after in _cpu_seconds(deployed).items()
        if name in cpu_before
    }
    client = deployed.layout.client
    device = client.interface("down").device
    packets = _grown(
        interfaces[client.name][device], deployed.interface_counts()[client.name][device]
    )
    own = 1.0 if isinstance(workload, PacketsWorkload) else 0.0  # the polling lcore
    return Observed(
        load, started_at, before, deployed.all_counters(), used,
        max(0.0, busy - sum(used.values()) - own), packets, tuple(machine),
    )  # fmt: skip


def audit(
    deployed: Deployed, workload: AnyWorkload, verified: list[Finding], seen: Observed
) -> Audit:
    load = seen.load
    own = load.packets
    errors = Finding(
        check="errors", ok=load.errors == 0, value=load.errors, limit=0,
        text=f"The clients report {load.errors} errors.",
    )  # fmt: skip
    return judged(
        Facts(
            sent=own.sent if own else 0,
            received=own.received if own else 0,
            lost=own.sent - own.received if own else 0,
            asked=own.intended if own else None,
            intended_s=workload.duration,
            took_s=load.duration_s,
            behind_s=own.behind_s if own else None,
            undecided=own.undecided if own else None,
            clocks=(*seen.clocks, *(own.clocks if own else ())),
            others_cpus=seen.others,  # the lab itself and the containers' tool take some of it
            cpus=os.cpu_count() or 1,
            more=(*verified, *judge(deployed, seen.before, seen.after, workload), errors),
        )
    )


def record(
    point: Point, workload: AnyWorkload, number: int, repetition: int, seen: Observed, found: Audit
) -> Trial:
    """Packets are the generator's own where it counts them, else those of the clients' interface,
    where what was never cut counts as one."""
    load, packets = seen.load, seen.packets
    seconds = load.duration_s
    l2_bytes = packets.rx_bytes + packets.rx_packets * _FCS_BYTES
    received, sent = packets.rx_packets, packets.tx_packets
    if isinstance(workload, PacketsWorkload):
        l2_bytes = load.bytes
    own = load.packets
    if own:
        received, sent = own.received, own.sent
    growth = {
        name: {k: max(0, v - seen.before[name].get(k, 0)) for k, v in values.items()}
        for name, values in seen.after.items()
    }
    return Trial(
        chain=point.name,
        direction="forward" if own else "both",
        repetition=repetition,
        execution=f"container {point.network}",
        workload=workload.text + swept_text(point.swept),
        load_pps=own.intended / seconds if own else 0,
        throughput_pps=received / seconds,
        throughput_gbps_l1=(l2_bytes + received * L1_OVERHEAD_BYTES) * 8 / seconds / 1e9,
        throughput_gbps_l2=l2_bytes * 8 / seconds / 1e9,
        offered_pps=(own.intended if own else sent) / seconds,
        sent_pps=sent / seconds,
        received_pps=received / seconds,
        loss_ratio=load.loss_ratio,
        latency_ns=load.latency,
        utilisation={},
        audit=found,
        duration_s=seconds,
        intended=own.intended if own else 0,
        sent=sent,
        received=received,
        lost=max(0, sent - received) if own else 0,
        reordered=own.reordered if own else 0,
        duplicated=own.duplicated if own else 0,
        latency_hdr=own.latency_hdr if own else None,
        application=Application(
            gbps=load.gbps, requests=load.requests, requests_per_s=load.requests_per_s,
            errors=load.errors, retransmits=load.retransmits, counters=growth, cpu=seen.cpu,
        ),
        labels=() if _open_loop(workload) else ("closed-loop",),
        trial=number,
        phase="fixed" if own else "max",
        started_at=seen.started_at,
        intended_duration_s=workload.duration,
    )  # fmt: skip


def _open_loop(workload: AnyWorkload) -> bool:
    if isinstance(workload, StreamWorkload):
        return workload.kind == "udp"
    return workload.kind in ("packets", "pcap")


def _cpu_seconds(deployed: Deployed) -> dict[str, float]:
    """Of all that belongs to the run and is not the lab itself."""
    read = {name: cpu.cpu_seconds(pid) for name, pid in deployed.pids.items()}
    for name, pid in deployed.switch_pids.items():
        times = cpu_times_s(pid)
        read[name] = None if times is None else sum(times)
    return {name: seconds for name, seconds in read.items() if seconds is not None}


def _grown(before: Count, after: Count) -> Count:
    return Count(
        after.rx_packets - before.rx_packets,
        after.tx_packets - before.tx_packets,
        after.rx_bytes - before.rx_bytes,
        after.tx_bytes - before.tx_bytes,
    )
