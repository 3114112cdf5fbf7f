# SPDX-License-Identifier: Apache-2.0
"""Parts of a mean latency that add up to it, and the times that they are made of."""

from __future__ import annotations

from typing import Literal

from headrace.engine.counts import EngineCounts
from headrace.engine.link_counts import LinkTimes
from headrace.record.segments import Anatomy

Kind = Literal["wait", "off_cpu", "stay", "age_in", "age_out"]


def grown(before: EngineCounts, after: EngineCounts, link: str, what: Kind) -> LinkTimes:
    """How much a link's times have grown between two readings."""
    now = _times(after, link, what)
    return now.since(_times(before, link, what))


def _times(read: EngineCounts, link: str, what: Kind) -> LinkTimes:
    """Nothing where the link takes no times."""
    times: LinkTimes | None = getattr(read.links.get(link), what, None)
    return times or LinkTimes()


def made_of(
    mean_ns: float,
    floor_ns: float,
    *,
    queue_ns: float,
    scheduler_ns: float,
    vnf_ns: float,
    back_ns: float = 0.0,
    undivided: str = "",
) -> Anatomy:
    """What was taken of the trial's own packets comes first. The tester's part is of another trial,
    and at most what the others leave; the switch's is the rest, the way back from VNFs in it.
    Together they may exceed the mean, as packets that were lost behind a VNF have times in them and
    none in it: then each is made smaller by the same ratio, and `over_ns` tells."""
    if queue_ns < 0:  # more time off the CPU than packets waited
        queue_ns, scheduler_ns = 0.0, max(0.0, scheduler_ns + queue_ns)
    taken = queue_ns + scheduler_ns + vnf_ns + back_ns
    scale = min(1.0, mean_ns / taken) if taken > 0 else 1.0
    queue, scheduler, vnf, back = (
        scale * part for part in (queue_ns, scheduler_ns, vnf_ns, back_ns)
    )
    rest = max(0.0, mean_ns - queue - scheduler - vnf - back)
    generator = min(floor_ns, rest)
    return Anatomy(
        generator_ns=generator,
        switch_ns=rest - generator + back,
        queue_ns=queue,
        scheduler_ns=scheduler,
        vnf_ns=vnf,
        of_which_back_ns=back,
        over_ns=max(0.0, taken - mean_ns),
        undivided=undivided,
    )
