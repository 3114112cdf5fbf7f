# SPDX-License-Identifier: Apache-2.0
"""The report on a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from headrace.analyse import document, units
from headrace.analyse.bottleneck import Pipe
from headrace.analyse.capacity import PAUSED, Part
from headrace.analyse.compared import Compared
from headrace.analyse.summary import Spread, Summary

BAR, SMALL_BAR = 28, 13  # columns of the widest part; on terminals below WIDE
WIDE = 100
GOOD, BAD, DIM = "green", "bold red", "dim"


def show(report: document.Report, console: Console) -> None:
    for part in lines(report, console.width):
        console.print(part)


def lines(report: document.Report, width: int) -> list[RenderableType]:
    parts: list[RenderableType] = [heading(report)]
    parts += [wrapped(f"! {text}", width, "  ", BAD) for text in report.cautions]
    for group in report.groups:
        parts += [Text(), Text(_title(group), style="bold"), table(group, width)]
        parts += [wrapped(f"- {text}", width, "  ", "") for text in group.notes]
        for explained in group.explained:
            parts.append(Padding(narrowest(explained, width), (1, 0, 0, 0), expand=False))
        for one in group.compared:
            parts.append(Padding(_compared(one, width), (1, 0, 0, 0), expand=False))
    parts += [Text(), evidence(report)]
    return parts


def wrapped(content: str, width: int, hanging: str, style: str) -> Text:
    """textwrap breaks at ASCII spaces only; rich would part a number from its unit."""
    return Text(textwrap.fill(content, width, subsequent_indent=hanging), style=style)


def heading(report: document.Report) -> Text:
    text = Text()
    text.append(report.title, style="bold")
    name = "" if report.title == report.name else f"{report.name}, "  # no results: the title is it
    text.append(f"  {name}{report.status.started_at}", style=DIM)
    return text


def _title(group: document.Group) -> str:
    nfs = " → ".join(group.nfs) or (group.chain if group.foreign else "empty chain")
    nfs += f" x {group.copies}" if group.copies > 1 else ""
    way = "" if group.direction == "forward" else f", {group.direction}"
    return f"{nfs}: {group.workload}{way}"


def table(group: document.Group, width: int) -> Table:
    """On a narrow terminal some figures go, never the audit's verdict."""
    rates = units.rate_scale(max(s.throughput_pps.max for s in group.summaries))
    medians = [s.latency_ns["p50"].median for s in group.summaries if "p50" in s.latency_ns]
    times = units.time_scale(min(medians, default=1.0))
    columns = [c for c in COLUMNS if width >= c.from_width]
    if any(s.by_policy for s in (*group.summaries, *group.single)):
        columns.insert(0, OFFERED)
    if group.foreign:
        columns = _of_applications(group, width, columns, rates, times)
    made = Table(box=None, pad_edge=False, header_style=DIM)
    made.add_column("goal", no_wrap=True)
    made.add_column("execution", overflow="fold", min_width=len("execution"))
    for column in columns:
        name = column.name.format(rate=rates.unit, time=times.unit)
        made.add_column(name, justify="right", no_wrap=True)
    made.add_column("audit", no_wrap=True, min_width=len("generator-bound"))
    rows = (*group.summaries, *group.single)
    # Of both directions together a fixed load is twice that of each: a goal of its own.
    goals = list(dict.fromkeys((*group.goals, *(s.key.goal_text for s in rows))))
    for s in sorted(rows, key=lambda s: goals.index(s.key.goal_text)):
        cells = [column.cell(s, rates, times) for column in columns]
        made.add_row(
            s.key.goal_text, _named(s), *cells, verdict(s), style=None if s.trusted else DIM
        )
    return made


def _of_applications(
    group: document.Group,
    width: int,
    columns: Sequence[Column],
    rates: units.Scale,
    times: units.Scale,
) -> list[Column]:
    """What clients saw instead of what packets of ours show: no column without a figure."""
    chosen = [c for c in APPLICATION if width >= c.from_width] + list(columns)
    if any("to_servers_gbps" in s.application for s in group.summaries):
        chosen = [c for c in chosen if c.name != "Gbit/s L1"]  # the two directions are there
    known = (
        any(c.cell(s, rates, times) != units.NOT_KNOWN for s in group.summaries) for c in chosen
    )
    return [c for c, some in zip(chosen, known, strict=True) if some]


class Column(NamedTuple):
    name: str
    from_width: int  # shown on terminals at least so wide
    cell: Callable[[Summary, units.Scale, units.Scale], str]


def _rate(s: Summary, rates: units.Scale, _: units.Scale) -> str:
    # A lower bound is of the load: of what passes a policer, more load is not more.
    least = "≥ " if s.lower_bound and not s.by_policy else ""
    return least + rates.number(s.throughput_pps.median, 4)


def _time(spreads: dict[str, Spread], name: str, times: units.Scale) -> str:
    found = spreads.get(name)
    return times.number(found.median if found else None)


def _cycles(s: Summary, _: units.Scale, __: units.Scale) -> str:
    return units.significant(s.cycles.median) if s.cycles else units.NOT_KNOWN


def _offered(s: Summary, _: units.Scale, __: units.Scale) -> str:
    return ("≥ " if s.lower_bound else "") + units.pps(s.offered_pps)


OFFERED = Column("offered", 0, _offered)  # where policy drops part throughput from it
COLUMNS = (
    Column("{rate}", 0, _rate),
    Column("spread", 0, lambda s, r, t: units.percent(s.throughput_pps.relative, 2)),
    Column("Gbit/s L1", 100, lambda s, r, t: units.significant(s.throughput_gbps_l1.median)),
    Column("loss", 0, lambda s, r, t: units.loss(s.loss_ratio.median)),
    Column("p50 {time}", 88, lambda s, r, t: _time(s.latency_ns, "p50", t)),
    Column("p99 {time}", 0, lambda s, r, t: _time(s.latency_ns, "p99", t)),
    Column("PDV99 {time}", 110, lambda s, r, t: _time(s.pdv_ns, "p99", t)),
    Column("cycles", 90, _cycles),
)


def _seen(name: str, s: Summary) -> str:
    found = s.application.get(name)
    return units.NOT_KNOWN if found is None else units.significant(found.median)


def _hits(s: Summary) -> str:
    found = s.application.get("hit_ratio")
    return units.percent(found.median if found else None, 2)


APPLICATION = (
    Column("goodput Gbit/s", 0, lambda s, r, t: _seen("gbps", s)),
    Column("to servers", 110, lambda s, r, t: _seen("to_servers_gbps", s)),
    Column("to clients", 110, lambda s, r, t: _seen("to_clients_gbps", s)),
    Column("requests/s", 0, lambda s, r, t: _seen("requests_per_s", s)),
    Column("hits", 100, lambda s, r, t: _hits(s)),
)


def _named(s: Summary) -> str:
    ground = "" if s.key.ground == "measured" else f" ({s.key.ground})"
    way = "" if s.key.direction == "forward" else f", {s.key.direction}"
    return s.key.execution + ground + way


def verdict(s: Summary) -> Text:
    if s.verdict == "ok":
        return Text("ok", style=GOOD)
    return Text(s.verdict, style=DIM if s.verdict == "not-audited" else BAD)


def narrowest(explained: document.Explained, width: int) -> Group:
    pipe, key = explained.pipe, explained.summary.key
    head = Text(textwrap.fill(f"{key.execution}, {key.goal_text}: {pipe.headline}", width))
    head.stylize("bold", 0, len(key.execution) + 1)
    return Group(
        head,
        Padding(_bars(pipe, BAR if width >= WIDE else SMALL_BAR), (0, 0, 0, 2), expand=False),
        *(wrapped(f"  - {reason}", width, "    ", DIM) for reason in pipe.reasons),
    )


def _compared(one: Compared, width: int) -> Group:
    named, *reasons = one.lines
    head = Text(textwrap.fill(f"{one.network}: {named}", width))
    head.stylize("bold", 0, len(one.network) + 1)
    return Group(head, *(wrapped(f"  - {reason}", width, "    ", DIM) for reason in reasons))


def _bars(pipe: Pipe, columns: int) -> Table:
    made = Table(box=None, show_header=False, pad_edge=False)
    for justify in ("left", "left", "right", "right", "left"):
        made.add_column(justify=justify, no_wrap=True)
    known = [p.capacity_pps for p in pipe.parts if p.capacity_pps]
    # Parts far wider than the flow would leave no room to tell the narrow ones apart.
    largest = min(max(known, default=1.0), 3 * pipe.carried_pps or 1.0)
    scale = units.rate_scale(pipe.carried_pps)
    for part in pipe.drawn():
        made.add_row(*_bar(part, pipe, largest, scale, columns))
    return made


def _bar(
    part: Part, pipe: Pipe, largest: float, scale: units.Scale, columns: int
) -> Sequence[RenderableType]:
    here = part.name in pipe.marked
    word = "narrowest" if pipe.limit is None else "limit reached"
    width = round(columns * min(1.0, (part.capacity_pps or 0.0) / largest))
    beyond = (part.capacity_pps or 0.0) > largest
    bar = Text("█" * width + ("▸" if beyond else ""), style=BAD if here else "blue")
    busy = "" if part.utilisation is None else f"{units.percent(part.utilisation)} busy"
    if (part.paused or 0.0) >= PAUSED:
        busy += f", {units.percent(part.paused, 2)} paused"
    cpus = ",".join(map(str, part.cpus))
    return (
        Text(part.name, style="bold" if here else ""),
        bar,
        Text(scale.text(part.capacity_pps)),
        Text(busy, style=DIM),
        Text(f"lcore {cpus}" + (f", {word}" if here else ""), style=BAD if here else DIM),
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
            f"{name}: loss at most {units.exact_percent(goal.loss_ratio)}, "
            f"trials of {trials[0]} s, {trials[1]} s in sum, "
            f"bounds within {units.exact_percent(goal.width)}; "
            f"{goal.label or 'no compliance label'}\n"
        )
    text.append(f"{units.plural(report.trials, 'trial')} in {report.path}")
    return text
