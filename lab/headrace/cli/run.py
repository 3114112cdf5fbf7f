# SPDX-License-Identifier: Apache-2.0
"""headrace run: measure what a spec, or a bundle of an earlier run, describes."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

import headrace
from headrace.cli._console import stdout
from headrace.cli.report import finish_run
from headrace.engine.describe import describe
from headrace.errors import BadInput
from headrace.host.exclusive import WAIT_S, Lcores
from headrace.host.memory import provide
from headrace.host.programs import find_engine
from headrace.host.state import RunState
from headrace.measure.prepare import Prepared, input_files, prepare
from headrace.measure.progress import Progress, expected_s, waiting_for
from headrace.measure.results import agreement
from headrace.measure.runner import Run
from headrace.record.bundle import Bundle, BundleUnwritable, BundleWriter
from headrace.record.rows import Result
from headrace.report.preview import Point, Preview
from headrace.report.preview import show as show_preview
from headrace.spec import document
from headrace.spec.appliance import is_container_study
from headrace.spec.document import Document
from headrace.spec.study import Study, expand


def run(
    spec: Annotated[Path, typer.Argument(help="A spec (YAML), or a bundle to replay.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="The bundle's directory; runs/NAME-TIME by default."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object: bundle and results.")
    ] = False,
    wait: Annotated[
        float,
        typer.Option("--wait", min=0, help="Seconds to wait for lcores that another run holds."),
    ] = WAIT_S,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Check the spec, its files and lcores, show what would run, and stop."
        ),
    ] = False,
) -> None:
    """Deploy, warm up, verify, measure; write a bundle with a report."""
    doc = open_spec(spec)
    if is_container_study(doc):
        if check:
            _show_preview(_containers(doc), as_json)
        else:
            # Loaded when wanted: the rest of the command need not wait half a second for it.
            from headrace.cli._appliances import run_containers

            run_containers(doc, out, as_json)
        return
    experiments = list(expand(doc))
    description = describe(find_engine())
    prepared = prepare(experiments, doc, description)
    study = experiments[0].study
    if check:
        files = input_files(experiments, doc, description)
        _show_preview(_preview(prepared, tuple(sorted(files))), as_json)
        return
    console = Console(stderr=True, highlight=False)
    runs = len(prepared) * study.repetitions
    progress = Progress(console, runs, _each_s(study))
    console.print(_preview(prepared).heading)
    results: list[Result] = []
    writer = _writer(out, study.name)
    target = writer.path
    try:
        with writer:
            _write_spec(writer, doc, prepared, input_files(experiments, doc, description))
            _measure(
                doc,
                description.engine,
                prepared,
                writer,
                progress,
                study.repetitions,
                results,
                wait,
            )
    except KeyboardInterrupt:
        progress.close()
        what = "; what was measured is in" if results else " before anything was measured; see"
        console.print(f"interrupted{what} {target}", soft_wrap=True)
        if results:
            finish_run(target, None)
        raise
    except BadInput:
        progress.close()
        if not results:
            shutil.rmtree(target)  # found wrong when it was loaded, before anything was measured
        raise
    except BundleUnwritable:
        progress.close()
        if results:
            with contextlib.suppress(BundleUnwritable):  # it says the same of another file
                finish_run(target, None if as_json else stdout())
            console.print(f"what was measured is in {target}", markup=False)
        raise
    except BaseException:
        progress.close()
        if results:
            finish_run(target, None)
            console.print(f"what was measured is in {target}", markup=False)
        raise
    progress.close()
    if as_json:
        finish_run(target, None)
        typer.echo(json.dumps(_object(target, results), indent=2))
        return
    said = stdout()
    page = finish_run(target, said)
    for line in agreement(results):
        said.print(line, markup=False, soft_wrap=True)
    said.print(f"Bundle: {target}\nReport: {page}", markup=False, soft_wrap=True)


def _writer(out: Path | None, name: str) -> BundleWriter:
    """A name that the user gave is taken as it is; one that we make gives way to others."""
    if out is not None:
        return BundleWriter(out, command=sys.argv, version=headrace.__version__)
    made = Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
    return BundleWriter.beside(made, command=sys.argv, version=headrace.__version__)


def _each_s(study: Study) -> float:
    """How long one measurement may take: its search or loads, warm-up, an engine's start."""
    return expected_s(study.measure) + study.warmup + 2


def _preview(prepared: list[Prepared], files: tuple[str, ...] = ()) -> Preview:
    studies = [one.experiment.study for one in prepared]
    repetitions = studies[0].repetitions
    return Preview(
        name=studies[0].name,
        experiments=tuple(
            Point(
                chain=one.experiment.chain,
                execution=one.experiment.execution.name,
                workload=one.experiment.workload_name,
                lcores={segment.name: segment.cpus for segment in one.segments()},
                notes=(*one.placement.notes, *one.notes),
            )
            for one in prepared
        ),
        repetitions=repetitions,
        seconds=repetitions * sum(map(_each_s, studies)),
        files=files,
        boots=any(study.deployment.hosting.kind == "vm" for study in studies),
    )


def _containers(doc: Document) -> Preview:
    from headrace.ground.appliances import feasible
    from headrace.ground.appliances.study import expand_study
    from headrace.record.deployment import swept_text

    expanded = expand_study(doc)
    feasible.check(expanded)
    return Preview(
        name=expanded.study.name,
        experiments=tuple(
            Point(chain=one.name, execution=one.role, workload=one.network + swept_text(one.swept))
            for one in expanded.points
        ),
        repetitions=expanded.study.repetitions,
        seconds=None,
        files=(),
    )


def _show_preview(found: Preview, as_json: bool) -> None:
    if as_json:
        typer.echo(found.model_dump_json(indent=2))
    else:
        show_preview(found, stdout(soft_wrap=True))


def open_spec(given: Path) -> Document:
    """A spec's document; a bundle's is its spec, with the files that it copied."""
    if not given.is_dir():
        return document.load(given)
    bundle = Bundle(given)
    resolved = bundle.spec_resolved
    if bundle.spec_given is None or resolved is None:
        raise BadInput(f"{given}: has no spec to replay")
    copies = {name: given / copy for name, copy in resolved.get("inputs", {}).items()}
    return document.load(given / "spec.yaml", copies)


def _write_spec(
    writer: BundleWriter, doc: Document, prepared: list[Prepared], files: dict[str, Path]
) -> None:
    inputs = {}
    for i, (name, source) in enumerate(sorted(files.items())):
        copy = writer.input(f"{i}-{source.name}", source)
        inputs[name] = str(copy.relative_to(writer.path))
    experiments: list[dict[str, Any]] = [
        {
            "chain": one.experiment.chain,
            "execution": one.experiment.execution.name,
            "workload": one.experiment.workload_name,
            "study": one.experiment.study.model_dump(mode="json"),
            "lcores": {s.name: list(s.cpus) for s in one.segments()},
            "notes": list(one.placement.notes),
            "plan": one.plan,
        }
        for one in prepared
    ]
    given = doc.file.read_text(encoding="utf-8")
    writer.spec(given, {"inputs": inputs, "experiments": experiments})


def _measure(
    doc: Document,
    engine: Path,
    prepared: list[Prepared],
    writer: BundleWriter,
    progress: Progress,
    repetitions: int,
    results: list[Result],
    wait_s: float,
) -> None:
    state = RunState()
    try:
        most = max((one.experiment.study.deployment for one in prepared), key=lambda d: d.memory_mb)
        for note in dict.fromkeys(note for one in prepared for note in one.placement.notes):
            progress.say(f"placement: {note}")
        for note in dict.fromkeys(note for one in prepared for note in one.notes):
            progress.say(f"note: {note}")
        cpus = set().union(*(one.placement.cpus for one in prepared))

        def waiting(cpu: int) -> None:
            progress.say(waiting_for(cpu, wait_s))

        with Lcores(cpus, waiting, wait_s):
            memory = provide(most, state)
            progress.say(f"memory: {memory.note}")
            Run(doc, engine, state, memory, writer, progress, results).all(prepared, repetitions)
    finally:
        state.remove()


def _object(bundle: Path, results: list[Result]) -> dict[str, Any]:
    from headrace.report.machine import row

    return {"bundle": str(bundle), "results": [row(result) for result in results]}
