# SPDX-License-Identifier: Apache-2.0
"""Deploy a point, prove its path, run its workloads, and say it as trial records."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from headrace.bundle import BundleWriter, now
from headrace.record import L1_OVERHEAD_BYTES, Application, Audit, Finding, Result, Trial
from headrace.spec.appliance import AnyWorkload, StreamWorkload
from headrace.testbed.containers import runtime
from headrace.testbed.containers.deploy import Deployed
from headrace.testbed.containers.load import Load, run_load
from headrace.testbed.containers.plumbing import Count
from headrace.testbed.containers.study import Expanded, Point, workload_problem
from headrace.testbed.containers.verify import judge, verify

_FCS_BYTES = 4
_OTHERS_CPUS_MAX = 0.3  # the lab itself and podman take some of it
Say = Callable[[str], None]


@dataclass(frozen=True)
class Row:
    """A result with the point that it belongs to, for the report."""

    point: Point
    result: Result


@dataclass
class Runner:
    """Runs a study; each finished trial is in the bundle before the next begins."""

    expanded: Expanded
    writer: BundleWriter
    run_directory: Path
    say: Say
    rows: list[Row] = field(default_factory=list)
    trials: int = 0

    def all(self) -> list[Row]:
        for entry in self.expanded.entries:
            runtime.build(entry, self.say)
        points = self.expanded.points
        begin = time.monotonic()
        for number, point in enumerate(points):
            left = ""
            if number:
                each = (time.monotonic() - begin) / number
                left = f", about {each * (len(points) - number) / 60:.0f} min left"
            self.say(f"[{number + 1}/{len(points)}{left}] {point.network}: {point.name}")
            self._point(point)
        return self.rows

    def _point(self, point: Point) -> None:
        with Deployed(point.layout, point.supplies, point.network, self.run_directory) as deployed:
            findings = verify(deployed, point.workloads)
            for workload in point.workloads:
                problem = workload_problem(point, workload)
                if problem is not None:
                    self.say(f"  {workload.text}: skipped: {problem}")
                    continue
                for repetition in range(1, self.expanded.study.repetitions + 1):
                    self._trial(deployed, point, workload, repetition, findings)

    def _trial(
        self,
        deployed: Deployed,
        point: Point,
        workload: AnyWorkload,
        repetition: int,
        verified: list[Finding],
    ) -> None:
        self.trials += 1
        if workload.warmup:
            run_load(deployed, workload, workload.warmup, seed=10_000 + self.trials)
        counters = deployed.all_counters()
        pids = runtime.pids([deployed.name(n) for n in deployed.layout.nodes])
        cpu = {name: runtime.cpu_seconds(pid) for name, pid in pids.items()}
        interfaces = deployed.interface_counts()
        started_at, began = now(), time.monotonic()
        busy = runtime.busy_seconds()
        load = run_load(deployed, workload, workload.duration, seed=self.trials)
        elapsed = time.monotonic() - began
        busy = (runtime.busy_seconds() - busy) / elapsed
        used = {
            node.name: (after - before) / elapsed
            for node in deployed.layout.nodes
            if (before := cpu[deployed.name(node)]) is not None
            and (after := runtime.cpu_seconds(pids[deployed.name(node)])) is not None
        }
        client = deployed.layout.client
        packets = _grown(
            interfaces[client.name]["down"], deployed.interface_counts()[client.name]["down"]
        )
        grown = deployed.all_counters()
        findings = [
            *verified,
            *judge(deployed, counters, grown, workload.kind),
            _others(busy - sum(used.values())),
            Finding(
                check="errors", ok=load.errors == 0, value=load.errors, limit=0,
                text=f"The clients report {load.errors} errors.",
            ),
        ]  # fmt: skip
        audit = Audit(
            verdict="ok" if all(f.ok for f in findings) else "suspect",
            findings=tuple(findings),
            duration_ns=int(load.duration_s * 1e9),
            intended_duration_ns=int(workload.duration * 1e9),
        )
        growth = {
            name: {k: max(0, v - counters[name].get(k, 0)) for k, v in values.items()}
            for name, values in grown.items()
        }
        application = Application(
            gbps=load.gbps, requests=load.requests, requests_per_s=load.requests_per_s,
            errors=load.errors, retransmits=load.retransmits, counters=growth, cpu=used,
        )  # fmt: skip
        trial = self._record(
            point, workload, repetition, load, packets, audit, application, started_at
        )
        self.writer.trial(trial)
        fields = trial.model_dump(exclude={"trial", "phase", "started_at", "intended_duration_s"})
        result = Result(**fields, goal="max", trial=trial.trial)
        self.writer.result(result)
        self.rows.append(Row(point, result))
        rate = f"{load.requests_per_s:.0f} requests/s, " if load.requests else ""
        self.say(f"  {workload.text}: {rate}{load.gbps:.3f} Gbit/s")

    def _record(
        self,
        point: Point,
        workload: AnyWorkload,
        repetition: int,
        load: Load,
        packets: Count,
        audit: Audit,
        application: Application,
        started_at: str,
    ) -> Trial:
        """Packets are those of the clients' interface; what was never cut counts as one."""
        seconds = load.duration_s
        l2_bytes = packets.rx_bytes + packets.rx_packets * _FCS_BYTES
        received, sent = packets.rx_packets, packets.tx_packets
        swept = "".join(f" {path}={value}" for path, value in point.swept)
        closed = not (isinstance(workload, StreamWorkload) and workload.kind == "udp")
        return Trial(
            chain=point.name,
            direction="both",
            repetition=repetition,
            execution=f"container {point.network}",
            workload=workload.text + swept,
            load_pps=0,
            throughput_pps=received / seconds,
            throughput_gbps_l1=(l2_bytes + received * L1_OVERHEAD_BYTES) * 8 / seconds / 1e9,
            throughput_gbps_l2=l2_bytes * 8 / seconds / 1e9,
            offered_pps=sent / seconds,
            sent_pps=sent / seconds,
            received_pps=received / seconds,
            loss_ratio=load.loss_ratio,
            latency_ns=load.latency,
            utilisation={},
            audit=audit,
            duration_s=seconds,
            sent=sent,
            received=received,
            application=application,
            labels=("closed-loop",) if closed else (),
            trial=self.trials,
            phase="max",
            started_at=started_at,
            intended_duration_s=workload.duration,
        )


def _others(cpus: float) -> Finding:
    """Work of others on the same CPUs makes a trial's figures theirs as much as the chain's."""
    cpus = max(0.0, cpus)
    return Finding(
        check="other work", ok=cpus <= _OTHERS_CPUS_MAX, value=cpus, limit=_OTHERS_CPUS_MAX,
        text=f"Other processes of this machine took {cpus:.2f} of its {os.cpu_count()} CPUs.",
    )  # fmt: skip


def _grown(before: Count, after: Count) -> Count:
    return Count(
        after.rx_packets - before.rx_packets,
        after.tx_packets - before.tx_packets,
        after.rx_bytes - before.rx_bytes,
        after.tx_bytes - before.tx_bytes,
    )
