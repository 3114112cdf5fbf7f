# SPDX-License-Identifier: Apache-2.0
"""What passes each segment now, for the picture of the chain."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.live.scene import Scene
from headrace.record.counters import Counters, ReplicaReading
from headrace.record.moment import Moment
from headrace.record.segments import Segment
from headrace.report.charts.pipe_rows import Course, Stretch


def course(scene: Scene) -> Course:
    """Without a moment there is nothing to draw."""
    if (moment := scene.moment) is None:
        return Course(())
    return Course(tuple(_stretch(segment, moment) for segment in scene.segments))


def _stretch(segment: Segment, moment: Moment) -> Stretch:
    replicas = replicas_of(segment, moment.counters)
    if segment.role == "generator":  # packets come into it from sources
        passed = sum(sum(r.inputs.values()) for r in replicas)
    else:
        passed = sum(r.packets_in for r in replicas)
    return Stretch(
        name=segment.name,
        about=", ".join(segment.nfs),
        cpus=segment.cpus,
        pps=per_second(passed, moment),
        busy=busy(segment.cpus, moment.counters),
        dropped_pps=per_second(_dropped(segment, replicas, moment), moment),
        tester=segment.role != "chain",
    )


def replicas_of(segment: Segment, counters: Counters) -> list[ReplicaReading]:
    return [r for r in counters.replicas if r.segment == segment.name]


def per_second(packets: int, moment: Moment) -> float:
    return packets / moment.seconds if moment.seconds else 0.0


def busy(cpus: Sequence[int], counters: Counters) -> float | None:
    """OPS / REF of the busiest of these lcores, between the two looks."""
    shares = [
        w.ops_cycles / w.ref_cycles for w in counters.workers if w.cpu in cpus and w.ref_cycles
    ]
    return max(shares, default=None)


def _dropped(segment: Segment, replicas: Sequence[ReplicaReading], moment: Moment) -> int:
    """What its functions drop, and the rings in front of it, which are full as it is too slow."""
    places = {nf for r in replicas for nf in r.nfs} | {link for r in replicas for link in r.inputs}
    return sum(n for place, n in moment.dropped.items() if place.rsplit("/", 1)[0] in places)
