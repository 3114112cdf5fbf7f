# SPDX-License-Identifier: Apache-2.0
"""headrace campaign: each point of a study by itself, in a bundle of its own; gone on with after a
kill."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from headrace.analyse.campaign import next_runs, ranked, with_run
from headrace.analyse.units import plural
from headrace.cli import _groups as groups
from headrace.cli._console import print_json, stdout
from headrace.cli._folder import make_folder
from headrace.cli._placing import share_of
from headrace.cli._study_run import measure_study, on_server, open_spec
from headrace.cli.run import On, Trust, Wait
from headrace.engine.place import usable_cpus
from headrace.errors import BadInput, HeadraceError, bad_value, shown
from headrace.ground.choose import Grounds, simulated
from headrace.ground.contract import Checked
from headrace.host.consoles import Terminal
from headrace.host.exclusive import WAIT_S
from headrace.measure.forked import ForkedJob, forked
from headrace.record.bundle import Bundle, write_whole
from headrace.record.campaign import (
    CAMPAIGN_FILE,
    CampaignOrder,
    CampaignOutput,
    CampaignPoint,
    CampaignRule,
)
from headrace.record.outputs import ListedPoint, PointList
from headrace.record.tables import gather
from headrace.report.campaign import document
from headrace.report.html import write
from headrace.report.terminal import show
from headrace.spec.document import Document
from headrace.spec.invalid import sentence
from headrace.spec.points import Wanted, has_groups

if TYPE_CHECKING:
    from headrace.cli._point_jobs import PointJobs

_ENDING_S = 30.0  # in which the runs of a campaign that was killed undo what they made


@dataclass(frozen=True)
class Task:
    """A point, and what `headrace run` would be given for it."""

    key: str
    title: str
    chosen: groups.Chosen
    checked: Checked


Work = Callable[[Task, Path], None]


def campaign(
    spec: Annotated[Path, typer.Argument(help="A spec (YAML), or a study of headrace's own.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="The campaign's folder, campaigns/NAME by default; what is there is gone on with."
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(help="Run a point until its median is known to this share (5%)."),
    ] = None,
    most: Annotated[int, typer.Option(min=2, max=1000, help="With --until: runs at most.")] = 10,
    keep: Annotated[
        int | None,
        typer.Option(min=1, help="Halve the points, with twice the runs each time, to so many."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, max=1024, help="Predicted points at a time; one for each CPU."),
    ] = None,
    listed: Annotated[
        bool, typer.Option("--list", help="Show the points, measure nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what the points came to.")] = False,
    pods: Annotated[
        str | None,
        typer.Option(
            metavar="IMAGE",
            help="Predict each point in a Job of the Kubernetes cluster, in headrace's own image.",
        ),
    ] = None,
    wait: Wait = WAIT_S,
    on: On = None,
    trust: Trust = False,
) -> None:
    """Measure each point of a study in a run of its own; the same command goes on after a kill."""
    doc = on_server(open_spec(spec, trusted=trust), on)
    rule = CampaignRule(
        until=None if until is None else share_of("--until", until, "5%"), most=most, keep=keep
    )
    _check(doc, jobs, pods, on)
    tasks, points = _tasks(doc)
    name = doc.data["name"]
    if listed:
        _list(name, points, as_json)
        return
    workers = _workers(doc, tasks, pods, on, wait)
    folder = out or Path("campaigns") / name
    make_folder(folder)
    with _held(folder):
        _begun(folder, CampaignOrder(spec=doc.text(), server=on, rule=rule))
        with workers as (work, at_a_time):
            came = "predicted" if simulated(doc) else "measured"
            begun = _Campaign(folder, tasks, points, rule, work, came)
            try:
                begun.run(jobs or at_a_time)
            finally:
                output = begun.stored(name)
    _told(output, rule, as_json)


def _check(doc: Document, jobs: int | None, pods: str | None, on: str | None) -> None:
    if pods is not None and not pods.strip():
        allowed = "headrace's own image, as registry.example/headrace:0.1.0"
        raise bad_value("--pods", pods, allowed)
    if not simulated(doc):
        _here(jobs, pods, on)


def _here(jobs: int | None, pods: str | None, on: str | None) -> None:
    """What a study that is measured cannot have."""
    if jobs is not None and jobs > 1:
        raise bad_value("--jobs", jobs, "1, as measurements beside each other disturb each other")
    if pods is not None:
        problem = "--on SERVER is missing" if on is None else f"--on {on} predicts nothing"
        allowed = (
            "a study that is predicted, as with --on SERVER; one that is measured on a cluster "
            "needs no --pods"
        )
        raise bad_value("--pods", pods, allowed, problem)


def _list(study: str, points: Sequence[CampaignPoint], as_json: bool) -> None:
    if as_json:
        listed = (
            ListedPoint(point=one.key, title=one.title, lacking=one.skipped or one.failed)
            for one in points
        )
        print_json(PointList(study=study, points=tuple(listed)))
        return
    for point in points:
        why = point.skipped or point.failed
        line = f"{point.key}  {point.title}" + (f"  [{why}]" if why else "")
        stdout(soft_wrap=True).print(line, markup=False)


def _workers(
    doc: Document, tasks: dict[str, Task], image: str | None, on: str | None, wait: float
) -> contextlib.AbstractContextManager[tuple[Work, int]]:
    """What makes a point's bundle, and how many at a time: here, or each as a Job of a cluster,
    which is looked for now; nothing is made there before the context is entered."""
    if image is None:
        at_a_time = len(usable_cpus()) if simulated(doc) else 1
        return contextlib.nullcontext((partial(_measure, wait), at_a_time))
    from headrace.cli._point_jobs import point_jobs, reached  # the client takes long to load

    inputs = {name: file for task in tasks.values() for name, file in task.checked.inputs.items()}
    return _in_jobs(point_jobs(doc, inputs, image, on, reached()))


@contextlib.contextmanager
def _in_jobs(
    running: contextlib.AbstractContextManager[tuple[PointJobs, int]],
) -> Iterator[tuple[Work, int]]:
    with running as (jobs, most):
        yield (lambda task, bundle: jobs.predict(task.chosen.wanted.point, bundle)), most


def _told(output: CampaignOutput, rule: CampaignRule, as_json: bool) -> None:
    if as_json:
        print_json(output)
    else:
        console = stdout()
        show(document(output, rule), console)
        page = Path(output.folder) / "report.html"
        console.print(f"Campaign: {output.folder}\nReport: {page}", markup=False, soft_wrap=True)
    failed = [point.key for point in output.points if point.failed]
    if failed:
        raise HeadraceError(f"points that failed: {', '.join(failed)}")


class _Campaign:
    """What its folder has, and what is run beside it."""

    def __init__(
        self,
        folder: Path,
        tasks: dict[str, Task],
        points: Sequence[CampaignPoint],
        rule: CampaignRule,
        work: Work,
        came: str,
    ) -> None:
        """`came`: what is said of a run that ended well."""
        self.folder, self.tasks, self.rule = folder, tasks, rule
        self.console = Terminal(stderr=True, highlight=False, soft_wrap=True)
        self.work, self.came = work, came
        self.points = {point.key: point for point in points}
        for key in tasks:
            self._take_all(key)
        kept = sum(len(point.bundles) for point in self.points.values())
        if kept:
            self.console.print(f"{plural(kept, 'run')} of before in {folder}", markup=False)

    def run(self, at_a_time: int) -> None:
        while wanted := next_runs(list(self.points.values()), self.rule):
            runs = [
                (key, number)
                for key, count in wanted.items()
                for number in range(len(self.points[key].runs) + 1, count + 1)
            ]
            self.console.print(f"{plural(len(runs), 'run')}, {at_a_time} at a time")
            jobs = [self._job(key, number) for key, number in runs]
            whose = {job.name: key for job, (key, _) in zip(jobs, runs, strict=True)}
            with contextlib.closing(forked(jobs, at_a_time)) as ended:
                for done, (bundle, why) in enumerate(ended, 1):
                    key = whose[bundle]
                    came = f"failed: {why}" if why else self.came
                    title = self.points[key].title
                    self.console.print(f"{done:4} of {len(jobs)}: {title}: {came}", markup=False)
                    if why:
                        self._failed(key, why)
            for key in wanted:
                self._take_all(key)

    def _bundle(self, key: str, number: int) -> Path:
        return self.folder / f"{key}-{number}"

    def _job(self, key: str, number: int) -> ForkedJob:
        task, bundle = self.tasks[key], self._bundle(key, number)
        if bundle.exists():
            shutil.rmtree(bundle)  # of a run that did not end
        (self.folder / "logs").mkdir(exist_ok=True)
        work = partial(self.work, task, bundle)
        return ForkedJob(bundle.name, work, self.folder / "logs" / f"{bundle.name}.txt")

    def _take_all(self, key: str) -> None:
        """The runs that ended, in their order: those that are there count no more than once."""
        point = self.points[key]
        while point.failed is None:
            path = self._bundle(key, len(point.runs) + 1)
            if not (path / "status.json").is_file() or not (bundle := Bundle(path)).complete:
                break
            point = with_run(point, path.name, bundle.results())
        self.points[key] = point

    def _failed(self, key: str, why: str) -> None:
        self.points[key] = self.points[key].model_copy(update={"failed": why})

    def stored(self, study: str) -> CampaignOutput:
        """One store over all bundles, and the page."""
        points = ranked(list(self.points.values()), self.rule)
        output = CampaignOutput(folder=str(self.folder), study=study, points=points)
        bundles = [self.folder / one for key in self.tasks for one in self.points[key].bundles]
        if bundles:
            gather(bundles, self.folder)
            write(document(output, self.rule), self.folder / "report.html")
        return output


def _measure(wait: float, task: Task, bundle: Path) -> None:
    measure_study(task.chosen.points[0].doc, task.chosen, task.checked, bundle, True, wait)


def _tasks(doc: Document) -> tuple[dict[str, Task], list[CampaignPoint]]:
    """The study's points, those that this machine cannot have among them with the reason."""
    chosen, check = groups.chosen(doc, Wanted()), Grounds().check
    if not has_groups(doc):
        checked = chosen.checked(check, all_right=True)
        width = len(str(len(checked.points)))
        every = [
            Task(
                f"{number:0{width}}",
                title,
                replace(chosen, wanted=Wanted(point=str(number))),
                replace(checked, points=[point]),
            )
            for number, (point, title) in enumerate(
                zip(checked.points, groups.titles(checked), strict=True), 1
            )
        ]
        return {t.key: t for t in every}, [CampaignPoint(key=t.key, title=t.title) for t in every]
    tasks, points = {}, []
    for one in chosen.points:
        title = ", ".join((one.group, *(f"{k}={v}" for k, v in one.values.items())))
        alone = replace(chosen, wanted=Wanted(point=one.name), points=[one], failed={})
        failed = None
        try:
            if one.skipped is None:
                tasks[one.name] = Task(one.name, title, alone, check(one.doc))
        except HeadraceError as error:
            failed = str(error)
        points.append(CampaignPoint(key=one.name, title=title, skipped=one.skipped, failed=failed))
    return tasks, points


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    """One campaign in a folder at a time. Its runs hold the lock, too: those of a campaign that was
    killed end, and undo what they made, before it is gone on with."""
    with (folder / ".lock").open("w") as lock:
        deadline = time.monotonic() + _ENDING_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise HeadraceError(f"{folder}: another campaign is run in it") from None
                time.sleep(0.2)
        yield


def _begun(folder: Path, order: CampaignOrder) -> None:
    """BadInput where the folder is that of another campaign, with other figures."""
    file = folder / CAMPAIGN_FILE
    if not file.exists():
        if any(one.name != ".lock" for one in folder.iterdir()):
            raise BadInput(
                f"--out {folder}: has other files; allowed: a folder of a campaign, or a new one"
            )
        write_whole(file, order.model_dump_json(indent=1) + "\n")
        return
    try:
        before = CampaignOrder.model_validate_json(file.read_text(encoding="utf-8"))
    except ValidationError as error:
        raise BadInput(f"{file}: {sentence(error)}") from None
    if order.spec != before.spec:
        raise BadInput(
            f"--out {folder}: its campaign began with another text of the spec; allowed: the same, "
            "or another folder"
        )
    began = _options(before)
    for option, given in _options(order).items():
        if given != began[option]:
            problem = f"the campaign in {folder} began with {shown(began[option])}"
            raise bad_value(option, given, "the same, or another --out", problem)


def _options(order: CampaignOrder) -> dict[str, str | int | None]:
    """What a campaign was asked for, as the command line has it."""
    until = None if order.rule.until is None else f"{order.rule.until * 100:g}%"
    most, keep = order.rule.most, order.rule.keep
    return {"--on": order.server, "--until": until, "--most": most, "--keep": keep}
