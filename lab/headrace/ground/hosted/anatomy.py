# SPDX-License-Identifier: Apache-2.0
"""Where a packet's time goes between generator and sink (Wang et al. 2016 figure 8).

Each VNF's link stamps what is put into it, and its reader's worker knows when it was off its CPU:
so waiting for a VNF is told apart from waiting for the scheduler. The parts are means over the
packets of a trial, and add up to its mean latency: the switch's part is what the others leave.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.engine.counts import EngineCounts
from headrace.engine.link_counts import ShmCounts
from headrace.engine.plan_compiler import Path
from headrace.ground.hosted.anatomy_parts import grown, made_of
from headrace.ground.hosted.anatomy_ports import anatomy_by_ports
from headrace.ground.hosted.parts import Vnf
from headrace.record.segments import Anatomy


def anatomy(
    before: EngineCounts,
    after: EngineCounts,
    vnfs: Sequence[Vnf],
    ways: Sequence[Path],
    mean_ns: float,
    floor_ns: float,
) -> Anatomy | None:
    """Where packets spent their time, by direction. None where no link takes times."""
    if not any(isinstance(link, ShmCounts) and link.off_cpu for link in after.links.values()):
        return anatomy_by_ports(before, after, vnfs, ways, mean_ns, floor_ns)
    queue = scheduler = stay = back = passed = 0
    for vnf, way in ((vnf, way) for vnf in vnfs for way in ways):
        entry, exit_ = vnf.entry(way.direction), vnf.exit(way.direction)
        waited = grown(before, after, f"{vnf.name}:{entry.name}", "wait")
        off_cpu = grown(before, after, f"{vnf.name}:{entry.name}", "off_cpu")
        queue += waited.sum_ns - off_cpu.sum_ns
        scheduler += off_cpu.sum_ns
        stay += grown(before, after, f"{vnf.name}:{exit_.name}", "stay").sum_ns
        returned = grown(before, after, exit_.link, "wait")
        back += returned.sum_ns
        passed += returned.count
    # Sinks count anew from a trial's start.
    received = sum(after.sink(way.sink).received for way in ways)
    if not passed or not received:
        return None
    # Per packet that arrived, however many VNFs it went through.
    return made_of(
        mean_ns,
        floor_ns,
        queue_ns=queue / received,
        scheduler_ns=scheduler / received,
        vnf_ns=stay / received,
        back_ns=back / received,
    )
