# SPDX-License-Identifier: Apache-2.0
"""What `headrace run` does: its options are in cli/run.py."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from headrace.analyse.claims import check_claims, tally
from headrace.analyse.summary import agreement
from headrace.analyse.units import plural
from headrace.cli import _claims as claimed
from headrace.cli import _groups as groups
from headrace.cli._console import print_json, stdout
from headrace.cli._fitted_on import fitted_on
from headrace.cli._live import listen, watched
from headrace.cli._operated import OperateOptions, operated
from headrace.errors import BadInput, HeadraceError, bad_value
from headrace.ground.choose import Grounds, simulated
from headrace.ground.contract import Checked
from headrace.host.consoles import Terminal
from headrace.host.programs import shipped
from headrace.host.settle import settle
from headrace.host.store import server_named
from headrace.measure.estimate import deployments, study_s
from headrace.measure.progress import Progress
from headrace.record.again import document_of
from headrace.record.bundle import Bundle, check_new
from headrace.record.chaos import CHAOS
from headrace.record.claim import JudgedClaim
from headrace.record.known import known
from headrace.record.outputs import RunOutput
from headrace.record.rows import Result, ResultRow
from headrace.report.preview import Preview, PreviewedPoint
from headrace.report.preview import show as show_preview
from headrace.spec import document
from headrace.spec.document import Document
from headrace.spec.folder import is_folder, load_folder, studies_of
from headrace.spec.points import Wanted
from headrace.spec.study import ground_of

KUBERNETES = "kubernetes"  # of --on: no described server's name


@dataclass(frozen=True)
class RunOptions:
    """What is given on the command line."""

    spec: Path
    out: Path | None
    as_json: bool
    wait: float = 0.0
    settled: float = 0.0
    check: bool = False
    group: str | None = None
    figure: int | None = None
    point: str | None = None
    quick: bool = False
    show: bool = False
    claims: bool = False
    live: str | None = None
    on: str | None = None
    beside: str | None = None
    trust: bool = False
    inputs: tuple[str, ...] = ()
    operate: OperateOptions | None = None  # of `headrace operate`
    fitted: tuple[str, ...] | None = None  # of `headrace fit`: rows; none: the study's


def run_study(asked: RunOptions) -> None:
    spec, out, as_json = asked.spec, asked.out, asked.as_json
    _one_of(asked.show, asked.check)
    _not_here(spec)
    if is_bundle(spec) and _replayed_tuned(asked):
        return
    _say_command(spec)
    server = _replayed_on(spec) if asked.on is None else asked.on
    doc = on_server(_with_inputs(open_spec(spec, trusted=asked.trust), asked.inputs), server)
    doc = doc if asked.operate is None else operated(doc, asked.operate)
    doc = doc if asked.fitted is None else fitted_on(doc, asked.fitted)
    chosen = groups.chosen(doc, _wanted(spec, asked))
    if asked.show:
        groups.tell(chosen, Grounds().check, as_json)
        return
    groups.say_shared(chosen, Terminal(stderr=True, highlight=False))
    checked = _checked(doc, chosen, asked.check, asked.beside)
    check_claims(chosen.study.claims, doc)
    if asked.claims and not chosen.study.claims:
        raise BadInput(f"{spec}: --claims: the study has no claims")
    if asked.check:
        if (listening := listen(asked.live)) is not None:
            listening.close()
        _show_check(chosen, checked, out, as_json)
        return
    settle(asked.settled, Terminal(stderr=True, highlight=False).print)
    bundle, results, judged = measure_study(
        doc, chosen, checked, out, as_json, asked.wait, asked.live
    )
    _end(chosen, bundle, results, judged, as_json)
    claimed.exit_by(judged if asked.claims else ())


def _with_inputs(doc: Document, given: Sequence[str]) -> Document:
    """Files that lie elsewhere than the spec has them."""
    inputs = dict(doc.inputs)
    for text in given:
        name, _, file = text.partition("=")
        if not name or not Path(file).is_file():
            raise bad_value("--input", text, allowed="NAME=FILE, of a file that is there")
        inputs[name] = Path(file).resolve()
    return dataclasses.replace(doc, inputs=inputs)


def _checked(doc: Document, chosen: groups.Chosen, all_right: bool, beside: str | None) -> Checked:
    """Adds the same points, predicted for a described server behind those that are measured."""
    checked = chosen.checked(Grounds().check, all_right=all_right)
    if beside is None:
        return checked
    if simulated(doc) or chosen.study.claims:
        why = "with --on all is predicted" if simulated(doc) else "its claims are of one of them"
        raise BadInput(f"--beside: {why}; allowed: a study without claims that is measured here")
    there = groups.chosen(on_server(doc, beside), chosen.wanted)
    predicted = there.checked(Grounds().check, all_right=True)
    points, notes = (*checked.points, *predicted.points), (*checked.notes, *predicted.notes)
    return dataclasses.replace(checked, points=points, notes=notes, computed=predicted.points)


def _replayed_on(spec: Path) -> str | None:
    """The server that a bundle's figures were predicted for, or that it ran on a cluster."""
    if not is_bundle(spec):
        return None
    points = known(Bundle(spec)).experiments
    ground = (points[0].study.get("ground") if points else None) or {}
    described = ground.get("simulated")
    if described is None:
        return None if ground.get(KUBERNETES) is None else KUBERNETES
    return str(described["server"])


def _say_command(spec: Path) -> None:
    """A bundle of `profile` or `plan` has the study that its layouts and settings vary: that is run
    here, and the whole by its command."""
    command = Bundle(spec).status.command[1:] if is_bundle(spec) else ()
    if command[:1] not in (("profile",), ("plan",)):
        return
    where = f", with {spec} as its spec" if command[0] == "plan" else ""
    text = (
        f"note: {spec} is of `headrace {command[0]}`: what that started from is measured; all of "
        f"it again: {shlex.join(('headrace', *command))}{where}"
    )
    Terminal(stderr=True, highlight=False, soft_wrap=True).print(text, markup=False)


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


def _replayed_tuned(asked: RunOptions) -> bool:
    from headrace.cli.tune import is_tuned, replay  # few bundles are of `tune`

    if not is_tuned(asked.spec):
        return False
    others = ("check", "group", "figure", "point", "quick", "show", "claims", "live")  # a study's
    for name in (name for name in others if getattr(asked, name)):
        option = "list" if name == "show" else name
        raise BadInput(
            f"--{option}: {asked.spec} is a bundle of `headrace tune`; allowed: --out, --json"
        )
    replay(asked.spec, asked.out, asked.as_json)
    return True


def _wanted(spec: Path, asked: RunOptions) -> Wanted:
    """A replay is of the points that were measured, unless the user says otherwise."""
    given = Wanted(asked.group, asked.figure, asked.point, asked.quick)
    if not is_bundle(spec) or given != Wanted():
        return given
    return known(Bundle(spec)).selection or Wanted()


def _show_check(chosen: groups.Chosen, checked: Checked, out: Path | None, as_json: bool) -> None:
    if out is not None:
        check_new(out)
    _show_preview(_preview(chosen.study.name, checked, tuple(sorted(checked.inputs))), as_json)
    if chosen.study.groups and not as_json:
        stdout().print(f"{plural(len(chosen.possible), 'point')} can be {chosen.had}")


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
    from headrace.measure.session import new_bundle, session  # now: a check measures nothing

    if checked.lacking is not None:
        raise HeadraceError(checked.lacking)
    console = Terminal(stderr=True, highlight=False)
    number = deployments(checked)
    listening = listen(live)
    preview = _preview(chosen.study.name, checked)
    console.print(preview.heading)
    for line in preview.touched:
        console.print(line, markup=False, soft_wrap=True)
    writer = new_bundle(out, chosen.study.name)

    def report(target: Path, shown: bool) -> None:
        claimed.judge(target, chosen.study)
        _finished(target, stdout() if shown and not as_json else None)

    with watched(listening, chosen.study.name, writer.path, console) as observer:
        progress = Progress(console, number, study_s(checked) / number, observer)
        with session(writer, progress, report, wait) as measuring:
            resolved = chosen.resolved().model_copy(update={"compared": compared})
            measuring.inputs(doc.text(), checked.inputs, checked.points, resolved)
            measuring.run(checked)
    chosen.keep(writer, measuring.failed)
    return writer.path, measuring.results, claimed.judge(writer.path, chosen.study)


def _unharmed(results: list[Result]) -> None:
    """A host that kills of its VNFs harmed is a failure of the run."""
    texts = [f.text for r in results if r.goal == CHAOS for f in r.audit.failed]
    if texts:
        raise HeadraceError(f"the host did not come through unharmed: {' '.join(texts)}")


def _finished(bundle: Path, console: Console | None) -> Path:
    from headrace.cli.report import finish_run  # now: a check loads nothing of reports

    return finish_run(bundle, console)


def _told(
    bundle: Path, results: list[Result], judged: tuple[JudgedClaim, ...], as_json: bool
) -> None:
    if as_json:
        _finished(bundle, None)
        print_json(run_output(bundle, results, judged))
        return
    out = stdout()
    page = _finished(bundle, out)
    for line in agreement(results):
        out.print(line, markup=False, soft_wrap=True)
    if judged:
        out.print(tally(judged), markup=False)
    out.print(f"Bundle: {bundle}\nReport: {page}", markup=False, soft_wrap=True)


def _preview(name: str, checked: Checked, files: tuple[str, ...] = ()) -> Preview:
    points = checked.points
    return Preview(
        name=name,
        experiments=tuple(
            PreviewedPoint(
                chain=one.chain,
                execution=one.execution,
                workload="; ".join(offer.workload for offer in one.offers),
                lcores={segment.name: segment.cpus for segment in one.segments},
                notes=tuple(one.notes),
                predicted=any(one is computed for computed in checked.computed),
            )
            for one in points
        ),
        repetitions=max(point.study.repetitions for point in points),
        notes=(*checked.notes, *(() if checked.lacking is None else [_not_now(checked.lacking)])),
        seconds=study_s(checked),
        files=files,
        runs=tuple(dict.fromkeys(name for one in points for name in one.runs)),
        writes=tuple(map(str, checked.writes.values())),
        deploying=checked.seconds is None,
    )


def _not_now(lacking: str) -> str:
    return f"it can be checked, and not be run now: {lacking}"


def _show_preview(preview: Preview, as_json: bool) -> None:
    if as_json:
        print_json(preview)
    else:
        show_preview(preview, stdout(soft_wrap=True))


def open_spec(given: Path, *, trusted: bool) -> Document:
    """A spec's document; a bundle's is its spec, with the files that it copied; a folder's is what
    its files have together; a name without a file, as quickstart or s2, is a study of headrace's
    own, or a folder of these. `trusted`: a bundle's spec may say what is to be run."""
    if not given.exists() and not given.suffix:
        return _own_study(given)
    if is_folder(given):
        return load_folder(given)
    if not given.is_dir():
        return document.load(given)
    _not_here(given)
    bundle = Bundle(given)
    doc = document_of(bundle, trusted=trusted)
    if doc is None or bundle.spec_resolved is None:
        raise BadInput(f"{given}: has no spec to replay")
    return doc


def _own_study(name: Path) -> Document:
    studies = shipped("studies")
    if (file := studies / f"{name}.yaml").is_file():
        return document.load(file)
    if is_folder(studies / name):
        return load_folder(studies / name)
    if len(name.parts) == 2 and is_folder(folder := studies / name.parts[0]):
        files = ", ".join(f"{folder.name}/{file.stem}" for file in studies_of(folder))
        allowed = f"{files}; a figure that shares another's file: {folder.name} --figure N"
        raise bad_value("SPEC", str(name), problem="no such file", allowed=allowed)
    folders = (one.name for one in studies.iterdir() if is_folder(one))
    names = ", ".join(sorted((*(file.stem for file in studies.glob("*.yaml")), *folders)))
    allowed = f"a spec (YAML), a bundle, or a study of headrace's own: {names}"
    raise bad_value("SPEC", str(name), problem="no such file", allowed=allowed)


def is_bundle(given: Path) -> bool:
    return given.is_dir() and not is_folder(given)


def _not_here(given: Path) -> None:
    """An empty name, as of a shell's variable that is not set, is this directory to pathlib."""
    allowed = "a spec (YAML), a folder of them, a bundle, or the name of a study"
    if given == Path() and not (given / "status.json").is_file():
        problem = "is empty or '.', and this directory is no bundle"
        raise bad_value("SPEC", problem=problem, allowed=allowed)
    if given.is_dir() and not any(given.glob("*.json")) and not is_folder(given):
        problem = "is a folder with neither studies (*.yaml) nor a bundle"
        raise bad_value("SPEC", str(given), allowed, problem)


def on_server(doc: Document, server: str | None) -> Document:
    """The study as if it said `ground: {simulated: {server: ...}}`, or `ground: {kubernetes: {}}`;
    a file is beside the user, not beside the spec."""
    if server is None:
        return doc
    if server == KUBERNETES:
        return _on_cluster(doc)
    if not isinstance(doc.data, dict):
        return doc  # that it is no study is said where it is read
    asked = ground_of(doc)
    if asked is not None and asked.fitted is not None:
        problem = f"the table is of {asked.server}"
        raise bad_value("--on", server, problem=problem, allowed="a study of a chain")
    given, named, inputs = Path(server), server, doc.inputs
    if server not in inputs and given.is_file():  # else it is headrace's own, or a bundle's copy
        named = str(given.resolve())
        inputs = {**inputs, named: given.resolve()}
    elif server not in inputs:
        server_named(doc, server, "--on")
    data = {**doc.data, "ground": {"simulated": {"server": named}}}
    return dataclasses.replace(doc, data=data, inputs=inputs)


def _on_cluster(doc: Document) -> Document:
    """Adds what the study itself says of the cluster."""
    ground = doc.data.get("ground") or {}
    own = ground.get(KUBERNETES) if isinstance(ground, dict) else None
    return dataclasses.replace(doc, data={**doc.data, "ground": {KUBERNETES: own or {}}})


def run_output(
    bundle: Path, results: Sequence[Result], judged: tuple[JudgedClaim, ...]
) -> RunOutput:
    rows = tuple(map(ResultRow.of, results))
    return RunOutput(bundle=str(bundle), results=rows, claims=judged)
