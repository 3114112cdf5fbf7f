# SPDX-License-Identifier: Apache-2.0
"""Hosted chains: latency in its parts, and results with the additive line beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.analyse.summary import summarise
from headrace.analyse.units import flow, ns, plural
from headrace.model.hosting import best_case
from headrace.record.rows import Measurement, Result
from headrace.record.segments import Anatomy
from headrace.report.charts.anatomy import FILLS, PARTS, AnatomyStack, anatomies
from headrace.report.document_model import Below, Block, Chart, Column, Key, Section, Table
from headrace.report.result_tables import rate_cell

_CHAINS = "deployment.hosting.chains"


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


def brief(result: Result) -> dict[str, Any]:
    """What a paper's figures have of a result."""
    delay = result.latency_ns
    shown = rate_cell(summarise([result])[0])
    return {
        "goal": result.goal,
        "load_pps": result.load_pps,
        "throughput_pps": None if isinstance(shown, Below) else result.throughput_pps,
        "throughput": shown,
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
    completed = []
    for row in rows:
        chains, results = row["values"].get(_CHAINS), []
        for one in row["results"]:
            alone = single.get((row["group"], _rest(row), one["goal"]))
            best = best_case(alone, chains) if alone and chains and one["goal"] != "fixed" else None
            results.append({**one, "best_case_pps": best})
        completed.append({**row, "results": results})
    return completed


def _rest(row: dict[str, Any]) -> str:
    return repr(sorted((k, str(v)) for k, v in row["values"].items() if k != _CHAINS))


def words(value: object) -> str:
    """A swept value in a table: of a chain its functions, of a list of one value that."""
    if isinstance(value, list):
        return " → ".join(map(words, value))
    if isinstance(value, dict) and len(value) == 1:
        return str(next(iter(value)))
    return value if isinstance(value, str) else flow(value)
