# SPDX-License-Identifier: Apache-2.0
"""`headrace run` for third-party VNFs: from the document to the bundle."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from rich.console import Console

import headrace
from headrace.analyse.appliances import compared
from headrace.analyse.compared import COMPARED_FILE, write_compared
from headrace.analyse.reached import reached
from headrace.ground.appliances.ground import check
from headrace.ground.contract import Checked, Site
from headrace.host.exclusive import Lcores
from headrace.host.state import RunState
from headrace.host.stopwatch import Stopwatch
from headrace.measure.appliance_measure import Runner
from headrace.measure.environment import collect
from headrace.record.bundle import Bundle, BundleWriter
from headrace.record.rows import Result
from headrace.report import appliances_layers as layers
from headrace.report import appliances_report as report
from headrace.report.machine import row as machine_row
from headrace.spec.document import Document


def run_containers(doc: Document, out: Path | None, as_json: bool) -> None:
    checked = check(doc)
    study = checked.points[0].study
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    console = Console(stderr=True, highlight=False)  # progress
    console.print(f"{study.name}: {len(checked.points)} deployments", markup=False)
    results: list[Result] = []
    stopwatch = Stopwatch()
    watched: list[tuple[str, Path]] = []
    open_writer = BundleWriter.beside if out is None else BundleWriter
    target = out or Path("runs") / f"{study.name}-{stamp}"
    writer = open_writer(target, command=sys.argv, version=headrace.__version__)
    target = writer.path
    try:
        with writer:
            _write_spec(doc, checked, writer)
            writer.environment(collect({}, "containers' own"))
            _measure(checked, writer, console, results, stopwatch, watched)
    except BaseException:
        if not results:
            console.print(f"ended before anything was measured; see {target}", markup=False)
        raise
    finally:
        if results:
            found = reached(Bundle(target))
            text = report.page(
                study.name, study.description, found, stopwatch.text(),
                layers.section(watched, results),
            )  # fmt: skip
            (target / "report.html").write_text(text, encoding="utf-8")
            writer.sample(COMPARED_FILE, write_compared(compared(found)))
            said = Console(stderr=as_json, highlight=False)
            report.show(found, said)
            said.print(f"time: {stopwatch.text()}", markup=False)
            said.print(f"Bundle: {target}\nReport: {target / 'report.html'}", markup=False)
    if as_json:
        rows = [machine_row(result) for result in results]
        print(json.dumps({"bundle": str(target), "results": rows}, indent=2))


def _write_spec(doc: Document, checked: Checked, writer: BundleWriter) -> None:
    inputs = {}
    for i, (name, source) in enumerate(sorted(checked.inputs.items())):
        copy = writer.input(f"{i}-{source.name}", source)
        inputs[name] = str(copy.relative_to(writer.path))
    experiments = [point.resolved() for point in checked.points]
    given = doc.file.read_text(encoding="utf-8")
    writer.spec(given, {"inputs": inputs, "experiments": experiments})


def _measure(
    checked: Checked,
    writer: BundleWriter,
    console: Console,
    results: list[Result],
    stopwatch: Stopwatch,
    watched: list[tuple[str, Path]],
) -> None:
    def say(text: str) -> None:
        console.print(text, markup=False)

    state = RunState()
    try:
        cpus = frozenset[int]().union(*(point.cpus for point in checked.points))
        with Lcores(cpus, lambda cpu: say(f"  lcore {cpu}: waiting for another run")):
            site = Site(state, say, stopwatch, writer.path)
            study = checked.points[0].study
            Runner(checked, study.repetitions, writer, site, results, layers=watched).all()
    finally:
        state.remove()
        writer.sample("time.json", json.dumps(stopwatch.seconds, indent=1))
