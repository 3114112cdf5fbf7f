# SPDX-License-Identifier: Apache-2.0
"""Hosted chains: rows of a paper's points with the additive line beside, and latency in parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import yaml
from rich.console import Console
from rich.table import Table

from headrace.analyse.units import ns, plural
from headrace.model.hosting import best_case
from headrace.record.rows import Measurement, Result
from headrace.record.segments import Anatomy
from headrace.report.charts.svg import el, line, picture, rect, text, title
from headrace.spec.study import Study

PARTS = ("generator", "switch", "queue", "scheduler", "VNF")
_COLOURS = ("#7f8c9b", "#2f6fab", "#d9a33a", "#c0504d", "#4f9d69")
_ROW, _BAR, _LEFT, _RIGHT, _TOP, _WIDTH = 26.0, 16.0, 230.0, 80.0, 44.0, 820.0
_CHAINS = "deployment.hosting.chains"


class Stack(NamedTuple):
    name: str
    parts_us: tuple[float, ...]  # as PARTS


def _in_us(us: float) -> str:
    """Four digits at least, and no powers of ten beside plain figures."""
    return f"{us:.4g}" if us < 1e4 else f"{us:.0f}"


def stack_of(made: Measurement) -> Stack:
    anatomy = made.anatomy
    assert anatomy is not None
    name = f"{made.chain} {made.workload}, {made.load_pps / 1e3:.4g} kpps"
    return Stack(name, tuple(part / 1e3 for part in parts(anatomy)))


def parts(a: Anatomy) -> tuple[float, ...]:
    return a.generator_ns, a.switch_ns, max(0.0, a.queue_ns), a.scheduler_ns, a.vnf_ns


def below_floor(made: Sequence[Measurement]) -> str:
    """Whose parts cannot be told; empty where there are none."""
    found = [one for one in made if one.below_floor]
    if not found:
        return ""
    floor = max(one.calibration.floor_ns for one in found if one.calibration is not None)
    least = min(one.latency_ns.p50 for one in found if one.latency_ns is not None)
    return (
        f"{plural(len(found), 'trial')} with a median latency (from {ns(least)}) below the "
        f"tester's floor ({ns(floor)}), whose calibration was disturbed: the generator's part is "
        "not known"
    )


def show_stack(bars: Sequence[Stack], console: Console) -> None:
    table = Table(title="Mean latency in parts, us", title_justify="left")
    table.add_column("trial")
    for part in (*PARTS, "sum"):
        table.add_column(part, justify="right")
    for bar in bars:
        table.add_row(bar.name, *map(_in_us, (*bar.parts_us, sum(bar.parts_us))))
    console.print(table)


def draw_stack(bars: Sequence[Stack]) -> str:
    """One bar for each trial, its parts one behind the other, all on one scale."""
    most = max((sum(bar.parts_us) for bar in bars), default=0.0) or 1.0
    scale = (_WIDTH - _LEFT - _RIGHT) / most
    height = _TOP + _ROW * len(bars) + 10
    children = [_legend()]
    for i, bar in enumerate(bars):
        y, x = _TOP + _ROW * i, _LEFT
        children.append(text(_LEFT - 8, y + 12, bar.name[:40], text_anchor="end", font_size=11.0))
        for part, us, colour in zip(PARTS, bar.parts_us, _COLOURS, strict=True):
            said = title(f"{part}: {us:.4g} us")
            children.append(rect(x, y, us * scale, _BAR, said, fill=colour))
            x += us * scale
        children.append(text(x + 6, y + 12, f"{sum(bar.parts_us):.4g} us", font_size=11.0))
    children.append(line(_LEFT, _TOP - 6, _LEFT, height - 8, stroke="#888888"))
    label = "Mean latency in parts: " + "; ".join(
        f"{bar.name}: " + ", ".join(
            f"{part} {us:.4g} us" for part, us in zip(PARTS, bar.parts_us, strict=True)
        )
        for bar in bars
    )  # fmt: skip
    return picture(_WIDTH, height, label, *children)


def _legend() -> str:
    keys, x = [], _LEFT
    for part, colour in zip(PARTS, _COLOURS, strict=True):
        keys.append(rect(x, 8, 12, 12, fill=colour))
        keys.append(text(x + 17, 18, part, font_size=12.0))
        x += 34 + 7.5 * len(part)
    return el("g", *keys)


def brief(result: Result) -> dict[str, Any]:
    """What a paper's figures have of a result."""
    delay = result.latency_ns
    return {
        "goal": result.goal,
        "load_pps": result.load_pps,
        "throughput_pps": result.throughput_pps,
        "throughput_gbps_l2": result.throughput_gbps_l2,
        "loss_ratio": result.loss_ratio,
        "latency_mean_us": None if delay is None else delay.mean / 1e3,
        "latency_p99_us": None if delay is None else delay.p99 / 1e3,
        "jitter_us": None if result.ipdv_ns_mean is None else result.ipdv_ns_mean / 1e3,
        "anatomy": None
        if result.anatomy is None or result.below_floor
        else result.anatomy.model_dump(),
        "verdict": result.audit.verdict,
        "labels": list(result.labels),
    }


def with_best_case(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Beside each result of n chains n times what one chain of the same group and settings had."""
    single: dict[tuple[str, str, str], float] = {}
    for row in rows:
        if row["values"].get(_CHAINS) == 1:
            for one in row["results"]:
                single[(row["group"], _rest(row), one["goal"])] = one["throughput_pps"]
    made = []
    for row in rows:
        chains, results = row["values"].get(_CHAINS), []
        for one in row["results"]:
            alone = single.get((row["group"], _rest(row), one["goal"]))
            best = best_case(alone, chains) if alone and chains and one["goal"] != "fixed" else None
            results.append({**one, "best_case_pps": best})
        made.append({**row, "results": results})
    return made


def _rest(row: dict[str, Any]) -> str:
    return repr(sorted((k, str(v)) for k, v in row["values"].items() if k != _CHAINS))


def show_rows(file: Study, rows: Sequence[dict[str, Any]], console: Console) -> None:
    for name, group in file.groups.items():
        mine = [row for row in rows if row["group"] == name]
        if not mine:
            continue
        of = f" (figure {', '.join(group.figures)})" if group.figures else ""
        table = Table(title=f"{name}{of}: {group.about}", title_justify="left")
        for heading in ("point", "goal"):
            table.add_column(heading)
        for heading in ("kpps", "n x one", "loss", "mean us", "jitter us", "audit"):
            table.add_column(heading, justify="right")
        for row in mine:
            _add(table, row)
        console.print(table)
        for one in group.published:
            console.print(f"  published: {one.setup}: {one.value} ({one.claim})", markup=False)


def _add(table: Table, row: dict[str, Any]) -> None:
    label = ", ".join(f"{k.rpartition('.')[2]}={words(v)}" for k, v in row["values"].items())
    label = label[:60] or row["point"]
    why = row.get("skipped") or row.get("failed")
    if why:
        table.add_row(label, f"skipped: {why}" if row.get("skipped") else f"failed: {why}")
    for one in row["results"]:
        best = one["best_case_pps"]
        table.add_row(
            label,
            one["goal"],
            f"{one['throughput_pps'] / 1e3:.4g}",
            "" if best is None else f"{best / 1e3:.4g}",
            f"{one['loss_ratio']:.3%}",
            _us(one["latency_mean_us"]),
            _us(one["jitter_us"]),
            one["verdict"],
        )


def _us(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def flow(value: object) -> str:
    """On one line, as a spec has it (YAML 1.2 section 7.4)."""
    text: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=math.inf)
    return text.removesuffix("\n").removesuffix("\n...")


def words(value: object) -> str:
    """A swept value in a table: of a chain its functions, of a list of one value that."""
    if isinstance(value, list):
        return " → ".join(map(words, value))
    if isinstance(value, dict) and len(value) == 1:
        return str(next(iter(value)))
    return value if isinstance(value, str) else flow(value)
