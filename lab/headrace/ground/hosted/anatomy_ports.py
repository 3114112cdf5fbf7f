# SPDX-License-Identifier: Apache-2.0
"""Where a packet's time goes in a hosted chain whose VNFs are reached by devices: virtual machines,
a kernel bridge, a NIC's virtual functions.

A device stamps nothing. A VNF's ports tell how long packets stayed inside, by its own clock; the
host's tell how old they were when they left for a virtual machine and when they came back, by the
host's. The scheduler's part is the expectation from the run queue's account of the worker's thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.engine.counts import EngineCounts
from headrace.engine.link_counts import LinkTimes
from headrace.engine.plan_compiler import Path
from headrace.ground.hosted.anatomy_parts import grown, made_of
from headrace.ground.hosted.parts import Vnf
from headrace.ground.hosted.run_queue import mean_wait_ns
from headrace.record.segments import Anatomy

IN_MACHINES = "queue: the way back from the machine is in it"
IN_SWITCH = "queue: in the switch's part"


def anatomy_by_ports(
    before: EngineCounts,
    after: EngineCounts,
    vnfs: Sequence[Vnf],
    ways: Sequence[Path],
    mean_ns: float,
    floor_ns: float,
) -> Anatomy | None:
    """None where the ports take no times."""
    received = sum(after.sink(way.sink).received for way in ways)
    passed = stay = scheduler = outside = 0.0
    for vnf, way in ((vnf, way) for vnf in vnfs for way in ways):
        inside = grown(before, after, f"{vnf.name}:{vnf.exit(way.direction).name}", "stay")
        there = _outside(before, after, vnf, way)
        if vnf.appliance is not None:
            inside = there  # nothing of ours is in it
        passed += inside.count
        stay += inside.sum_ns
        outside += there.sum_ns
        scheduler += inside.count * _waited(before, after, vnf)
    if not passed or not received:
        return None
    vnf_ns, scheduler_ns = stay / received, scheduler / received
    room = max(0.0, (outside / received if outside else max(0.0, mean_ns - floor_ns)) - vnf_ns)
    scheduler_ns = min(scheduler_ns, room)
    queue_ns = room - scheduler_ns if outside else 0.0
    return made_of(
        mean_ns,
        floor_ns,
        queue_ns=queue_ns,
        scheduler_ns=scheduler_ns,
        vnf_ns=vnf_ns,
        undivided=IN_MACHINES if outside else IN_SWITCH,
    )


def _outside(before: EngineCounts, after: EngineCounts, vnf: Vnf, way: Path) -> LinkTimes:
    """How long packets were out of the host, in a machine. What a VNF drops has an age only when it
    leaves: means, not sums, are compared."""
    left = grown(before, after, vnf.entry(way.direction).link, "age_out")
    back = grown(before, after, vnf.exit(way.direction).link, "age_in")
    if not left.count or not back.count:
        return LinkTimes()
    mean = back.sum_ns / back.count - left.sum_ns / left.count
    return LinkTimes(sum_ns=round(max(0.0, mean) * back.count), count=back.count)


def _waited(before: EngineCounts, after: EngineCounts, vnf: Vnf) -> float:
    now, was = after.vnfs.get(vnf.name), before.vnfs.get(vnf.name)
    queue = now.since(was).run_queue if now else None
    if queue is None:
        return 0.0
    during = (after.tsc - before.tsc) * 1e9 / after.tsc_hz
    return mean_wait_ns(queue.waited_ns, queue.slices, during)
