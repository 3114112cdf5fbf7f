# SPDX-License-Identifier: Apache-2.0
"""Hosted chains: latency in its parts."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.analyse.units import flow, ns, plural
from headrace.record.rows import Measurement
from headrace.record.segments import Anatomy, CpuShare
from headrace.report.charts.anatomy import FILLS, PARTS, AnatomyStack, anatomies
from headrace.report.document_model import Block, Chart, Column, Key, Section, Table


def stack_of(measured: Measurement) -> AnatomyStack:
    name = f"{measured.chain} {measured.workload}, {measured.load_pps / 1e3:.4g} kpps"
    return AnatomyStack(name, parts_us(measured))


def parts_us(measured: Measurement) -> tuple[float, ...]:
    assert measured.anatomy is not None
    return tuple(part / 1e3 for part in parts(measured.anatomy))


def parts(a: Anatomy) -> tuple[float, ...]:
    return a.generator_ns, a.switch_ns, max(0.0, a.queue_ns), a.scheduler_ns, a.vnf_ns


def anatomy(stacks: Sequence[AnatomyStack], undivided: Sequence[str] = ()) -> Section:
    """Each trial's mean latency in its parts, drawn and as numbers; `undivided`: what could not be
    told apart."""
    note = f"Mean latency in parts: {', '.join(PARTS)}."
    notes = dict.fromkeys(f"Not told apart: {one}." for one in undivided if one)
    columns = (Column("trial", "text"), *(Column(f"{part}", digits=4) for part in (*PARTS, "sum")))
    rows = tuple((s.name, *s.parts_us, sum(s.parts_us)) for s in stacks)
    blocks: tuple[Block, ...] = (anatomy_chart(stacks), Table(columns, rows))
    return Section(
        "Where the time goes", " ".join((note, *notes)), blocks, about="mean latency in parts, us"
    )


def anatomy_chart(stacks: Sequence[AnatomyStack]) -> Chart:
    return Chart(anatomies(stacks), tuple(Key(fill, part) for part, fill in FILLS.items()))


def cpu_shares(rows: Sequence[tuple[str, CpuShare]]) -> Section:
    """Beside the name of what each was measured in."""
    columns = (
        Column("trial", "text"),
        Column("VNF", "text"),
        Column("weight", "count"),
        Column("of a CPU", "share", digits=3),
        Column("CPU time per packet", "own-time"),
    )
    table = Table(
        columns,
        tuple((name, one.vnf, one.weight, one.cpus, one.cost_ns) for name, one in rows),
    )
    note = "By the kernel's account of each VNF's control group; 100 is a weight by default."
    return Section("Who had the CPUs", note, (table,))


def below_floor(measured: Sequence[Measurement]) -> str:
    """Whose parts cannot be told; empty where there are none."""
    below = [one for one in measured if one.below_floor]
    if not below:
        return ""
    floor = max(one.calibration.floor_ns for one in below if one.calibration is not None)
    least = min(one.latency_ns.p50 for one in below if one.latency_ns is not None)
    return (
        f"{plural(len(below), 'trial')} with a median latency (from {ns(least)}) below the "
        f"tester's floor ({ns(floor)}), whose calibration was disturbed: the generator's part is "
        "not known"
    )


def words(value: object) -> str:
    """A swept value in a table: of a chain its functions, of a list of one value that."""
    if isinstance(value, list):
        return " → ".join(map(words, value))
    if isinstance(value, dict) and len(value) == 1:
        return str(next(iter(value)))
    return value if isinstance(value, str) else flow(value)
