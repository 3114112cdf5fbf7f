#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What functions side by side gain in latency, at half of what the chain in sequence carries.

    studies/parallel/compare.py FOLDER [--seconds S] [--repetitions N] [--load PPS]

First the NDR of each way to run the chain of `studies/parallel.yaml` in sequence is searched for,
then all of them and the one side by side run at half of each NDR, in turn, on the same lcores. The
verdict is on the ratio of median latencies, the median of the repetitions' ratios. The two bundles,
`ndr` and `latency`, and the page `parallel.html` are in FOLDER. `--load` spares the search.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from headrace.analyse.units import pps, significant
from headrace.errors import BadInput, HeadraceError
from headrace.record.bundle import Bundle
from headrace.record.rows import Result
from headrace.report.checks import Check, at_most, section
from headrace.report.document import Column, Document, Section, Table
from headrace.report.html import write

SPEC = Path(__file__).resolve().parent.parent / "parallel.yaml"
GOAL, RATIO_MOST, HALF = "ndr", 0.7, "half of the latter's NDR"
Spec = dict[str, Any]


def name_of(execution: str | Spec) -> str:
    if isinstance(execution, str):
        return execution
    return str(execution.get("name") or execution["model"])


def is_parallel(execution: str | Spec) -> bool:
    return isinstance(execution, dict) and bool(execution.get("parallel"))


def with_execution(spec: Spec, execution: Sequence[str | Spec], measure: Spec, times: int) -> Spec:
    deployment = {**spec["deployment"], "execution": list(execution)}
    return {**spec, "deployment": deployment, "measure": measure, "repetitions": times}


def run(spec: Spec, folder: Path, name: str) -> list[Result]:
    file, bundle = folder / f"{name}.yaml", folder / name
    file.write_text(yaml.safe_dump(spec, sort_keys=False), encoding="utf-8")
    program = Path(sys.executable).with_name("headrace")
    done = subprocess.run([program, "run", file, "--out", bundle], stdout=subprocess.DEVNULL)
    if done.returncode:
        raise HeadraceError(f"{file}: headrace run ended with exit status {done.returncode}")
    return Bundle(bundle).results()


def half_of_ndr(results: Sequence[Result]) -> dict[str, float]:
    """By execution. The lower bound is what was carried; without one there is nothing to halve."""
    found: dict[str, float] = {}
    for one in results:
        if one.goal == GOAL and one.bounds is not None and one.bounds.lower_pps is not None:
            found[one.execution] = round(one.bounds.lower_pps / 2)
    return found


def at(results: Sequence[Result], execution: str, load: float) -> dict[int, Result]:
    """By repetition."""
    return {
        one.repetition: one
        for one in results
        if one.execution == execution and abs(one.load_pps - load) < 1e-6 * load
    }


def ratios(results: Sequence[Result], beside: str, sequence: str, load: float) -> list[float]:
    """Median latencies of the same repetition: what the machine does beside is in both."""
    ours, theirs = at(results, beside, load), at(results, sequence, load)
    pairs = [(ours[i].latency_ns, theirs[i].latency_ns) for i in ours if i in theirs]
    return [a.p50 / b.p50 for a, b in pairs if a is not None and b is not None and b.p50]


def checks(
    results: Sequence[Result], beside: str, loads: dict[str, float], at_what: str
) -> list[Check]:
    found = []
    for sequence, load in loads.items():
        values = ratios(results, beside, sequence, load)
        found.append(
            at_most(
                f"median latency {beside} over {sequence}, at {at_what} ({pps(load)})",
                RATIO_MOST,
                median(values) if values else None,
                lambda v: f"{v:.2f}x",
                why="no latency was measured",
            )
        )
    return found


def table(results: Sequence[Result], names: Sequence[str], load: float) -> Section:
    rows = []
    for name in names:
        several = list(at(results, name, load).values())
        waits = [one.latency_ns for one in several if one.latency_ns is not None]
        if not waits:
            continue
        halves, tails = [w.p50 / 1e3 for w in waits], [w.p99 / 1e3 for w in waits]
        rows.append(
            (
                name,
                f"{significant(median(halves))} ({significant(min(halves))}–"
                f"{significant(max(halves))}) µs",
                f"{significant(median(tails))} µs",
                median(one.loss_ratio for one in several),
                ", ".join(sorted({one.audit.verdict for one in several})),
            )
        )
    columns = (
        "",
        "latency, median (of repetitions)",
        "p99",
        Column("loss", "loss"),
        Column("audit", "text"),
    )
    return Section(title=f"At {pps(load)}", blocks=(Table(columns, tuple(rows)),))


def searched(spec: Spec, sequential: Sequence[str | Spec], folder: Path) -> dict[str, float]:
    search = {"search": [GOAL], "goals": spec["measure"]["goals"]}
    loads = half_of_ndr(run(with_execution(spec, sequential, search, 1), folder, "ndr"))
    lacking = sorted({name_of(one) for one in sequential} - set(loads))
    if lacking:
        raise HeadraceError(
            f"{', '.join(lacking)}: no load was carried without loss, so there is no half of it; "
            "other work on the lcores does that"
        )
    return loads


def study(
    folder: Path, seconds: float, repetitions: int, load: float | None
) -> tuple[list[Check], Document]:
    spec: Spec = yaml.safe_load(SPEC.read_text(encoding="utf-8"))
    executions = spec["deployment"]["execution"]
    [beside] = [name_of(one) for one in executions if is_parallel(one)]
    sequential = [one for one in executions if not is_parallel(one)]
    if load is None:
        loads = searched(spec, sequential, folder)
    else:
        loads = {name_of(one): load for one in sequential}
    halves = sorted(set(loads.values()))
    fixed = {"loads": halves, "trial": seconds}
    results = run(with_execution(spec, executions, fixed, repetitions), folder, "latency")
    found = checks(results, beside, loads, "a load as asked for" if load else HALF)
    names = [name_of(one) for one in executions]
    tables = [table(results, names, load) for load in halves]
    note = "Loads are half of the NDR that each sequence had, searched for just before."
    if load is not None:
        note = "The load was asked for; the goal is of half of the sequence's NDR."
    page = Document(
        "Functions side by side", spec["name"], sections=(section(found, note), *tables)
    )
    return found, page


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=4.0, help="length of a trial at a load")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--load", type=float, help="packets/s, instead of half of the NDR")
    given = parser.parse_args()
    if given.load is not None and not 1 <= given.load <= 1e10:
        parser.error(f"--load {given.load:g}: allowed: 1..1e10")
    if not 0.05 <= given.seconds <= 3600 or not 1 <= given.repetitions <= 1000:
        parser.error("allowed: --seconds 0.05..3600, --repetitions 1..1000")
    try:
        given.folder.mkdir(parents=True, exist_ok=True)
        found, page = study(given.folder, given.seconds, given.repetitions, given.load)
        write(page, given.folder / "parallel.html")
    except OSError as e:
        print(f"{parser.prog}: {given.folder}: {e.strerror}", file=sys.stderr)
        return 2
    except HeadraceError as e:
        print(f"{parser.prog}: {e}", file=sys.stderr)
        return 2 if isinstance(e, BadInput) else 1
    print("\n".join(check.line() for check in found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
