# SPDX-License-Identifier: Apache-2.0
"""The report on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from . import document, units
from .bottleneck import Part, Pipe
from .summary import Spread, Summary

BAR = 28  # columns of the widest part
GOOD, BAD, DIM = "green", "bold red", "dim"


def show(report: document.Report, console: Console) -> None:
    for part in lines(report):
        console.print(part)


def lines(report: document.Report) -> list[RenderableType]:
    parts: list[RenderableType] = [heading(report)]
    parts += [Text(f"! {text}", style=BAD) for text in report.cautions]
    for group in report.groups:
        parts += [Text(), Text(_title(group), style="bold"), table(group)]
        for explained in group.explained:
            parts.append(Padding(narrowest(explained), (1, 0, 0, 0)))
    parts += [Text(), evidence(report)]
    return parts


def heading(report: document.Report) -> Text:
    text = Text()
    text.append(report.title, style="bold")
    text.append(f"  {report.name}, {report.status.started_at}", style=DIM)
    return text


def _title(group: document.Group) -> str:
    nfs = " → ".join(group.nfs) or "empty chain"
    way = "" if group.direction == "forward" else f", {group.direction}"
    return f"{nfs}: {group.workload}{way}"


def table(group: document.Group) -> Table:
    rates = units.rate_scale(max(s.throughput_pps.max for s in group.summaries))
    medians = [s.latency_ns["p50"].median for s in group.summaries if "p50" in s.latency_ns]
    times = units.time_scale(min(medians, default=1.0))
    made = Table(box=None, pad_edge=False, header_style=DIM)
    made.add_column("goal", no_wrap=True)
    made.add_column("execution")
    for name in (
        rates.unit,
        "spread",
        "Gbit/s L1",
        "loss",
        f"p50 {times.unit}",
        f"p99 {times.unit}",
        f"PDV99 {times.unit}",
        "cycles",
    ):
        made.add_column(name, justify="right", no_wrap=True)
    made.add_column("audit")
    rows = (*group.summaries, *group.single)
    for s in sorted(rows, key=lambda s: group.goals.index(s.key.goal_text)):
        made.add_row(*_cells(s, rates, times), style=None if s.trusted else DIM)
    return made


def _cells(s: Summary, rates: units.Scale, times: units.Scale) -> list[RenderableType]:
    def time(spreads: dict[str, Spread], name: str) -> str:
        found = spreads.get(name)
        return times.number(found.median if found else None)

    least = "≥ " if s.verdict == "generator-bound" else ""
    ground = "" if s.key.ground == "measured" else f" ({s.key.ground})"
    cycles = sum(c.median for c in s.nf_cycles.values())
    return [
        s.key.goal_text,
        s.key.execution + ground + ("" if s.key.direction == "forward" else f", {s.key.direction}"),
        least + rates.number(s.throughput_pps.median, 4),
        units.percent(s.throughput_pps.relative, 2),
        units.significant(s.throughput_gbps_l1.median),
        units.loss(s.loss_ratio.median),
        time(s.latency_ns, "p50"),
        time(s.latency_ns, "p99"),
        time(s.pdv_ns, "p99"),
        units.significant(cycles) if cycles else units.NOT_KNOWN,
        verdict(s),
    ]


def verdict(s: Summary) -> Text:
    if s.verdict == "ok":
        return Text("ok", style=GOOD)
    return Text(s.verdict, style=DIM if s.verdict == "not-audited" else BAD)


def narrowest(explained: document.Explained) -> Group:
    pipe, key = explained.pipe, explained.summary.key
    head = Text()
    head.append(f"{key.execution}: ", style="bold")
    head.append(pipe.headline)
    return Group(
        head,
        Padding(_bars(pipe), (0, 0, 0, 2)),
        *(Text(f"  - {reason}", style=DIM) for reason in pipe.reasons),
    )


def _bars(pipe: Pipe) -> Table:
    made = Table(box=None, show_header=False, pad_edge=False)
    for justify in ("left", "left", "right", "right", "left"):
        made.add_column(justify=justify, no_wrap=True)
    known = [p.capacity_pps for p in pipe.parts if p.capacity_pps]
    # Parts far wider than the flow would leave no room to tell the narrow ones apart.
    largest = min(max(known, default=1.0), 3 * pipe.throughput_pps or 1.0)
    scale = units.rate_scale(pipe.throughput_pps)
    for part in pipe.parts:
        made.add_row(*_bar(part, pipe, largest, scale))
    return made


def _bar(part: Part, pipe: Pipe, largest: float, scale: units.Scale) -> Sequence[RenderableType]:
    here = part.name in pipe.marked
    width = round(BAR * min(1.0, (part.capacity_pps or 0.0) / largest))
    beyond = (part.capacity_pps or 0.0) > largest
    bar = Text("█" * width + ("▸" if beyond else ""), style=BAD if here else "blue")
    busy = "" if part.utilisation is None else f"{units.percent(part.utilisation)} busy"
    cpus = ",".join(map(str, part.cpus))
    return (
        Text(part.name, style="bold" if here else ""),
        bar,
        Text(scale.text(part.capacity_pps)),
        Text(busy, style=DIM),
        Text(f"lcore {cpus}" + (", narrowest" if here else ""), style=BAD if here else DIM),
    )


def evidence(report: document.Report) -> Text:
    text = Text(style=DIM)
    e = report.environment
    if e is not None:
        facts = [e.hostname, e.cpu.get("model"), e.kernel.get("release"), e.engine.get("dpdk")]
        text.append(", ".join(str(f) for f in facts if f) + "\n")
    goals = {
        r.goal: r.goal_parameters
        for g in report.groups
        for s in g.summaries
        for r in s.results
        if r.goal_parameters
    }
    for name, goal in goals.items():
        trials = units.significant(goal.final_trial_s), units.significant(goal.duration_sum_s)
        text.append(
            f"{name}: loss at most {units.loss(goal.loss_ratio)}, trials of {trials[0]} s, "
            f"{trials[1]} s in sum, bounds within {units.percent(goal.width, 2)}; "
            f"{goal.label or 'no compliance label'}\n"
        )
    text.append(f"{units.plural(report.trials, 'trial')} in {report.path}")
    return text
