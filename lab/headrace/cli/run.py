# SPDX-License-Identifier: Apache-2.0
"""headrace run: measure what a spec, or a bundle of an earlier run, describes."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from headrace.analyse.claims import check_claims, tally
from headrace.analyse.units import plural
from headrace.cli import _claims as claimed
from headrace.cli import _groups as groups
from headrace.cli._console import print_json, stdout
from headrace.cli._live import Address, listen, watched
from headrace.cli.report import finish_run
from headrace.cli.tune import is_tuned, replay
from headrace.errors import BadInput, HeadraceError
from headrace.ground.choose import Grounds, simulated
from headrace.ground.contract import Checked
from headrace.host.exclusive import WAIT_S
from headrace.host.programs import shipped
from headrace.host.settle import settle
from headrace.measure.estimate import deployments, study_s
from headrace.measure.progress import Progress
from headrace.measure.results import agreement
from headrace.measure.session import new_bundle, session
from headrace.record.again import document_of
from headrace.record.bundle import Bundle, check_new
from headrace.record.chaos import CHAOS
from headrace.record.claim import JudgedClaim
from headrace.record.outputs import RunOutput
from headrace.record.rows import Result, ResultRow
from headrace.report.preview import Preview, PreviewedPoint
from headrace.report.preview import show as show_preview
from headrace.spec import document
from headrace.spec.document import Document
from headrace.spec.points import Wanted

Spec = Annotated[
    Path, typer.Argument(help="A spec (YAML), a bundle to replay, or a study of headrace's own.")
]

On = Annotated[
    str | None,
    typer.Option("--on", help="Predict it for this described server (file or name)."),
]

Beside = Annotated[
    str | None,
    typer.Option("--beside", help="Measure here, and predict beside it for this server."),
]

Settled = Annotated[
    float,
    typer.Option(
        "--settle", min=0, help="Seconds to wait, at most, for other work here to pass first."
    ),
]

Wait = Annotated[
    float,
    typer.Option("--wait", min=0, help="Seconds to wait for lcores that another run holds."),
]

Claims = Annotated[
    bool,
    typer.Option(
        "--claims",
        help="Exit status 3 if a claim of the study is contradicted, 4 if one is not judged.",
    ),
]

Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Run what a bundle's spec names beside headrace's own (programs, images, machines), "
        "and write to what its functions are to write to.",
    ),
]


def run(
    spec: Spec = Path("quickstart"),
    out: Annotated[
        Path | None,
        typer.Option("--out", help="The bundle's directory; runs/NAME-TIME by default."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object: bundle and results.")
    ] = False,
    wait: Wait = WAIT_S,
    settled: Settled = 0.0,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Check the spec, its files and lcores, show what would run, and stop."
        ),
    ] = False,
    group: Annotated[
        str | None, typer.Option("--group", help="Only the points of this group.")
    ] = None,
    figure: Annotated[
        int | None, typer.Option("--figure", min=1, help="Only those of this figure.")
    ] = None,
    point: Annotated[str | None, typer.Option("--point", help="Only this point.")] = None,
    show: Annotated[bool, typer.Option("--list", help="Show the points, measure nothing.")] = False,
    claims: Claims = False,
    live: Address = None,
    on: On = None,
    beside: Beside = None,
    trust: Trust = False,
) -> None:
    """Deploy, warm up, verify, measure; write a bundle with a report."""
    _one_of(show, check)
    if spec.is_dir() and is_tuned(spec):
        study_s = {"check": check, "group": group, "figure": figure, "point": point, "list": show}
        return _replay_tuned(spec, out, as_json, study_s | {"claims": claims, "live": live})
    _say_command(spec)
    doc = on_server(open_spec(spec, trusted=trust), _replayed_on(spec) if on is None else on)
    chosen = groups.chosen(doc, _wanted(spec, Wanted(group, figure, point)))
    if show:
        groups.show(chosen, stdout())
        return
    groups.say_shared(chosen, Console(stderr=True, highlight=False))
    checked = _checked(doc, chosen, check, beside)
    check_claims(chosen.study.claims, doc)
    if claims and not chosen.study.claims:
        raise BadInput(f"{spec}: --claims: the study has no claims")
    if check:
        _show_check(chosen, checked, out, as_json)
        return
    settle(settled, Console(stderr=True, highlight=False).print)
    bundle, results, judged = measure_study(doc, chosen, checked, out, as_json, wait, live)
    _end(chosen, bundle, results, judged, as_json)
    claimed.exit_by(judged if claims else ())


def _checked(doc: Document, chosen: groups.Chosen, all_right: bool, beside: str | None) -> Checked:
    """With the same points predicted for a described server behind those that are measured."""
    checked = chosen.checked(Grounds().check, all_right=all_right)
    if beside is None:
        return checked
    if simulated(doc) or chosen.study.claims:
        why = "with --on all is predicted" if simulated(doc) else "its claims are of one of them"
        raise BadInput(f"--beside: {why}; allowed: a study without claims that is measured here")
    there = groups.chosen(on_server(doc, beside), chosen.wanted)
    predicted = there.checked(Grounds().check, all_right=True)
    points, notes = (*checked.points, *predicted.points), (*checked.notes, *predicted.notes)
    return dataclasses.replace(checked, points=points, notes=notes)


def _replayed_on(spec: Path) -> str | None:
    """The server that a bundle's figures were predicted for, where none was measured."""
    if not spec.is_dir():
        return None
    first, *_ = (Bundle(spec).spec_resolved or {}).get("experiments") or [{}]
    ground = first.get("study", {}).get("ground")
    return None if ground is None else str(ground["simulated"]["server"])


def _say_command(spec: Path) -> None:
    """A bundle of `profile` or `plan` has the study that its layouts and settings vary: that is run
    here, and the whole by its command."""
    command = Bundle(spec).status.command[1:] if spec.is_dir() else ()
    if command[:1] not in (("profile",), ("plan",)):
        return
    where = f", with {spec} as its spec" if command[0] == "plan" else ""
    text = (
        f"note: {spec} is of `headrace {command[0]}`: what that started from is measured; all of "
        f"it again: {shlex.join(('headrace', *command))}{where}"
    )
    Console(stderr=True, highlight=False, soft_wrap=True).print(text, markup=False)


def _one_of(show: bool, check: bool) -> None:
    if show and check:
        raise BadInput("--list, --check: got both; allowed: one of them")


def _end(
    chosen: groups.Chosen,
    bundle: Path,
    results: list[Result],
    judged: tuple[JudgedClaim, ...],
    as_json: bool,
) -> None:
    _told(bundle, results, judged, as_json)
    _unharmed(results)
    chosen.complain()


def _replay_tuned(
    bundle: Path, out: Path | None, as_json: bool, others: Mapping[str, object]
) -> None:
    """`others`: options that are a study's."""
    for option in (name for name, value in others.items() if value):
        raise BadInput(
            f"--{option}: {bundle} is a bundle of `headrace tune`; allowed: --out, --json"
        )
    replay(bundle, out, as_json)


def _wanted(spec: Path, given: Wanted) -> Wanted:
    """A replay is of the points that were measured, unless the user says otherwise."""
    if not spec.is_dir() or given != Wanted():
        return given
    return Wanted(**(Bundle(spec).spec_resolved or {}).get("selection", {}))


def _show_check(chosen: groups.Chosen, checked: Checked, out: Path | None, as_json: bool) -> None:
    if out is not None:
        check_new(out)
    _show_preview(_preview(chosen.study.name, checked, tuple(sorted(checked.inputs))), as_json)
    if chosen.study.groups and not as_json:
        stdout().print(f"{plural(len(chosen.possible), 'point')} can be measured here")


def measure_study(
    doc: Document,
    chosen: groups.Chosen,
    checked: Checked,
    out: Path | None,
    as_json: bool,
    wait: float,
    live: str | None = None,
    compared: dict[str, str] | None = None,
) -> tuple[Path, list[Result], tuple[JudgedClaim, ...]]:
    """The bundle, its results and what came of the claims. `compared`: sides a and b, by name."""
    if checked.lacking is not None:
        raise HeadraceError(checked.lacking)
    study = checked.points[0].study
    console = Console(stderr=True, highlight=False)
    number = len(checked.points) * deployments(checked)
    listening = listen(live)
    preview = _preview(chosen.study.name, checked)
    console.print(preview.heading)
    for line in preview.touched:
        console.print(line, markup=False, soft_wrap=True)
    writer = new_bundle(out, chosen.study.name)

    def report(target: Path, shown: bool) -> None:
        claimed.judge(target, chosen.study)
        finish_run(target, stdout() if shown and not as_json else None)

    with watched(listening, chosen.study.name, writer.path, console) as observer:
        progress = Progress(console, number, study_s(checked) / number, observer)
        with session(writer, progress, report, wait) as measuring:
            resolved = chosen.resolved().model_copy(update={"compared": compared})
            measuring.inputs(doc.text(), checked.inputs, checked.points, resolved)
            measuring.run(checked, study.repetitions)
    chosen.keep(writer, measuring.failed)
    return writer.path, measuring.results, claimed.judge(writer.path, chosen.study)


def _unharmed(results: list[Result]) -> None:
    """A host that kills of its VNFs harmed is a failure of the run."""
    texts = [f.text for r in results if r.goal == CHAOS for f in r.audit.failed]
    if texts:
        raise HeadraceError(f"the host did not come through unharmed: {' '.join(texts)}")


def _told(
    bundle: Path, results: list[Result], judged: tuple[JudgedClaim, ...], as_json: bool
) -> None:
    if as_json:
        finish_run(bundle, None)
        print_json(run_output(bundle, results, judged))
        return
    out = stdout()
    page = finish_run(bundle, out)
    for line in agreement(results):
        out.print(line, markup=False, soft_wrap=True)
    if judged:
        out.print(tally(judged), markup=False)
    out.print(f"Bundle: {bundle}\nReport: {page}", markup=False, soft_wrap=True)


def _preview(name: str, checked: Checked, files: tuple[str, ...] = ()) -> Preview:
    points = checked.points
    study = points[0].study
    return Preview(
        name=name,
        experiments=tuple(
            PreviewedPoint(
                chain=one.chain,
                execution=one.execution,
                workload="; ".join(offer.workload for offer in one.offers),
                lcores={segment.name: segment.cpus for segment in one.segments},
                notes=tuple(one.notes),
            )
            for one in points
        ),
        repetitions=study.repetitions,
        seconds=study_s(checked),
        files=files,
        runs=tuple(dict.fromkeys(name for one in points for name in one.runs)),
        writes=tuple(map(str, checked.writes.values())),
        deploying=checked.seconds is None,
    )


def _show_preview(preview: Preview, as_json: bool) -> None:
    if as_json:
        print_json(preview)
    else:
        show_preview(preview, stdout(soft_wrap=True))


def open_spec(given: Path, *, trusted: bool) -> Document:
    """A spec's document; a bundle's is its spec, with the files that it copied; a name without a
    file, as quickstart, is a study of headrace's own. `trusted`: a bundle's spec may say what is to
    be run."""
    own = shipped("studies") / f"{given}.yaml"
    if not given.exists() and not given.suffix and own.is_file():
        return document.load(own)
    if not given.is_dir():
        return document.load(given)
    bundle = Bundle(given)
    doc = document_of(bundle, trusted=trusted)
    if doc is None or bundle.spec_resolved is None:
        raise BadInput(f"{given}: has no spec to replay")
    return doc


def on_server(doc: Document, server: str | None) -> Document:
    """The study as if it said `ground: {simulated: {server: ...}}`; a file is beside the user, not
    beside the spec."""
    if server is None:
        return doc
    given = Path(server)
    named = str(given.resolve()) if given.is_file() else server
    data = {**doc.data, "ground": {"simulated": {"server": named}}}
    inputs = {**doc.inputs, named: given.resolve()} if given.is_file() else doc.inputs
    return dataclasses.replace(doc, data=data, inputs=inputs)


def run_output(
    bundle: Path, results: Sequence[Result], judged: tuple[JudgedClaim, ...]
) -> RunOutput:
    rows = tuple(map(ResultRow.of, results))
    return RunOutput(bundle=str(bundle), results=rows, claims=judged)
