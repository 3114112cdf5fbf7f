# SPDX-License-Identifier: Apache-2.0
"""`headrace run` for a spec with `hosting: container`: from the document to the bundle."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console

import headrace
from headrace.analyse.appliances import compared
from headrace.analyse.compared import COMPARED_FILE, write_compared
from headrace.errors import HeadraceError
from headrace.ground.appliances import feasible
from headrace.ground.appliances.study import Expanded, expand_study
from headrace.host.state import RunState
from headrace.host.stopwatch import Stopwatch
from headrace.host.tool import tool
from headrace.measure.appliance_figures import summaries
from headrace.measure.appliance_measure import Row, Runner
from headrace.measure.environment import collect
from headrace.record.bundle import BundleWriter
from headrace.report import appliances_layers as layers
from headrace.report import appliances_report as report
from headrace.report.machine import row as machine_row
from headrace.spec.document import Document


def run_containers(doc: Document, out: Path | None, as_json: bool) -> None:
    expanded = expand_study(doc)
    if os.geteuid():
        raise HeadraceError(f"{doc.file}: hosting: container needs root; run it with sudo")
    feasible.check(expanded)
    tool().answers()
    study = expanded.study
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    console = Console(stderr=True, highlight=False)  # progress
    console.print(f"{study.name}: {len(expanded.points)} deployments", markup=False)
    rows: list[Row] = []
    watch = Stopwatch()
    watched: list[tuple[str, Path]] = []
    open_writer = BundleWriter.beside if out is None else BundleWriter
    target = out or Path("runs") / f"{study.name}-{stamp}"
    writer = open_writer(target, command=sys.argv, version=headrace.__version__)
    target = writer.path
    try:
        with writer:
            writer.spec(doc.file.read_text(encoding="utf-8"), _resolved(expanded))
            writer.environment(collect({}, "containers' own", False))
            _measure(expanded, writer, console, rows, watch, watched)
    except BaseException:
        if not rows:
            console.print(f"ended before anything was measured; see {target}", markup=False)
        raise
    finally:
        if rows:
            text = report.page(
                study.name, study.description, rows, watch.text(), layers.section(watched, rows)
            )
            (target / "report.html").write_text(text, encoding="utf-8")
            writer.sample(COMPARED_FILE, write_compared(compared(summaries(rows))))
            said = Console(stderr=as_json, highlight=False)
            report.show(rows, said)
            said.print(f"time: {watch.text()}", markup=False)
            said.print(f"Bundle: {target}\nReport: {target / 'report.html'}", markup=False)
    if as_json:
        results = [machine_row(row.result) for row in rows]
        print(json.dumps({"bundle": str(target), "results": results}, indent=2))


def _measure(
    expanded: Expanded,
    writer: BundleWriter,
    console: Console,
    rows: list[Row],
    watch: Stopwatch,
    watched: list[tuple[str, Path]],
) -> None:
    def say(text: str) -> None:
        console.print(text, markup=False)

    state = RunState()
    try:
        Runner(expanded, writer, state, say, rows, watch, layers=watched).all()
    finally:
        state.remove()
        writer.sample("time.json", json.dumps(watch.seconds, indent=1))


def _resolved(expanded: Expanded) -> dict[str, Any]:
    return {
        "study": expanded.study.model_dump(mode="json"),
        "images": {e.definition.name: e.image for e in expanded.entries},
        "points": [
            {
                "role": point.role, "name": point.name, "network": point.network,
                "graph": point.graph, "instances": point.instances,
                "containers": {
                    n.name: {i.name: i.address for i in n.interfaces} for n in point.layout.nodes
                },
            }
            for point in expanded.points
        ],
    }  # fmt: skip
