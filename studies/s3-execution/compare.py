#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Closer Look at NFV Execution Models (Zheng et al. 2019; S3): its tables and figures measured on
this server, with what was published beside, and whether one may be held against the other. Table 2
and figures 5 and 6 are runs of the chain: `headrace run studies/s3-execution.yaml`.

    studies/s3-execution/compare.py [table1 table3 figure2 figure7]
                                    [--html PAGE] [--seconds S] [--repetitions N]

table1   delays of the memory hierarchy           table3   what handing a packet over costs
figure2  the load balancer over flow entries      figure7  what is waited for: caches and DRAM apart

All need the stored calibration (`headrace server calibrate`), which tells the levels of memory
apart: that is why they are no study.
"""

from __future__ import annotations

import sys
from statistics import median

from cuts import FLOWS, MEMORY_MB, ORIGIN, PUBLISHED
from state import figure2, figure7

from headrace.cli._comparison import Part, main
from headrace.model.levels import memory
from headrace.profile import handover, studied
from headrace.profile import point as points
from headrace.profile.point import Bench
from headrace.profile.studied import workload
from headrace.report.checks import at_most, table
from headrace.report.comparison import Entry, section, text
from headrace.report.document import Section
from headrace.spec.calibration import Calibration

OTHER_CPU = "TSC cycles of another processor"
TRANSFER_ROUNDS, TRANSFER_MOST = 5, 1.2


def table1(bench: Bench, cpus: list[int], say: studied.Say) -> Section:
    calibration = studied.calibrated("table1")
    published = PUBLISHED["memory_hierarchy_cycles"]
    names = {"memory": "DRAM"}
    entries = [
        Entry(
            name := names.get(one.name, one.name),
            one.cycles,
            text(published[name]),
            unlike=OTHER_CPU,
        )
        for one in calibration.levels
        if names.get(one.name, one.name) in published
    ]
    reason = "this server has one NUMA node"
    chases = calibration.measured.chase
    far = memory(chases[1], calibration.levels) if len(chases) > 1 else None
    for name, cycles in (("remote L3", remote_cache(calibration)), ("remote DRAM", far)):
        why = "" if cycles is not None else reason
        entries.append(Entry(name, cycles, text(published[name]), why, unlike=OTHER_CPU))
    hz = calibration.measured.tsc_hz
    return section(
        "Table 1: access delay",
        f"TSC cycles of {hz / 1e9:.2f} GHz; the paper's are core cycles of 2.7 to 3.4 GHz. A delay "
        "bounds what a core can do with two dependent accesses per packet.",
        [*entries, *bounds(calibration)],
        "cycles",
    )


def remote_cache(calibration: Calibration) -> float | None:
    """Lines that a core of another node has, unchanged, in its caches."""
    node_of = calibration.server.node_of
    found = [
        one.clean.median
        for one in calibration.measured.transfer or ()
        if one.clean is not None and node_of(one.source) != node_of(one.target)
    ]
    return median(found) if found else None


def bounds(calibration: Calibration) -> list[Entry]:
    """Two accesses per packet, one after the other, and nothing else."""
    cycles = {one.name: one.cycles for one in calibration.levels}
    found = []
    for level, key in (("memory", "dram"), ("L3", "l3")):
        rate = calibration.measured.tsc_hz / (2 * cycles[level]) / 1e6 if level in cycles else None
        found.append(
            Entry(
                f"Mpps per core, two accesses to {key.upper()}",
                rate,
                text(PUBLISHED["bound_mpps"][key]),
                "" if rate else f"this server has no {level}",
                unlike=OTHER_CPU,
            )
        )
    return found


def table3(bench: Bench, cpus: list[int], say: studied.Say) -> Section:
    calibration = studied.calibrated("table3")
    published = text(PUBLISHED["transfer_cycles"])
    entries = [
        Entry(
            f"line, CPU {t.source} to {t.target}, {kind}",
            figure.median,
            published,
            unlike=f"a line, not a packet, and {OTHER_CPU}",
        )
        for t in calibration.measured.transfer or ()
        for kind, figure in (("clean", t.clean), ("modified", t.modified))
        if figure is not None
    ]
    found = handed_over(bench, cpus, say)
    ratio = median(one.chain / one.ring for one in found)
    sent, received = (median(getattr(one, side) for one in found) for side in ("sent", "received"))
    bursts = f"{sent:.0f} packets at once into it, {received:.0f} out of it"
    entries += [
        Entry(
            f"packet through a ring, both sides ({bursts})",
            median(o.ring for o in found),
            published,
            unlike=OTHER_CPU,
        ),
        Entry("packet between the chain's segments, both sides", median(o.chain for o in found)),
        *(
            Entry(f"round {i}: the chain's over the ring's", one.chain / one.ring)
            for i, one in enumerate(found, 1)
        ),
        Entry("the chain's over the ring's, median", ratio),
    ]
    made = section(
        "Table 3: transfer between cores",
        "A cache line, by the stored calibration; and a packet with its descriptor and header, "
        "through a ring alone and through that between a chain's segments, in turn, at the bursts "
        "that the chain had; the paper has one range for a packet's transfer within a socket.",
        entries,
        "cycles",
    )
    check = at_most(
        "a packet's transfer over the ring's", TRANSFER_MOST, ratio, lambda v: f"{v:.2f}x"
    )
    return made.plus(table([check]))


def handed_over(bench: Bench, cpus: list[int], say: studied.Say) -> list[handover.HandOver]:
    """A function that forwards, behind a ring of another core, and in front of one."""
    data = {
        "name": "s3-transfer",
        "chain": [{"l2fwd": {}}],
        "deployment": {"memory_mb": MEMORY_MB},
        "workload": workload(64, FLOWS),
    }
    doc, experiment = points.experiment_of(data, ORIGIN)
    say(f"table 3, hand-over, {TRANSFER_ROUNDS} rounds")
    return handover.measure(bench, doc, experiment, cpus, TRANSFER_ROUNDS)


PARTS: dict[str, Part] = {
    "table1": table1,
    "table3": table3,
    "figure2": figure2,
    "figure7": figure7,
}


if __name__ == "__main__":
    sys.exit(
        main(
            PARTS,
            "A Closer Look at NFV Execution Models, measured here",
            "Zheng et al., APNet 2019",
            (__doc__ or "").splitlines()[0],
            MEMORY_MB,
        )
    )
