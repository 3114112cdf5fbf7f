# SPDX-License-Identifier: Apache-2.0
"""The one measuring session: whatever measures, on any ground, does it through this.

It owns the bundle, the run's state on the machine, lcores, memory, the numbers of trials, and what
is to be done when a run is interrupted or fails. Grounds deploy and observe (ground/contract.py);
measure/audit.py judges; measure/series.py knows which trials a study wants.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from rich.markup import escape

import headrace
from headrace.collect.watch import Watch, watching
from headrace.engine.plan_document import PlanEngine
from headrace.errors import BadInput, HeadraceError
from headrace.ground.contract import Checked, Deployed, Offer, Point, Site
from headrace.host import interrupts, slow_start, store
from headrace.host.consoles import Terminal
from headrace.host.exclusive import WAIT_S, HeldLcores
from headrace.host.reservation import Memory, provide
from headrace.host.state import dpdk_prefix, run_state
from headrace.host.stopwatch import Stopwatch
from headrace.measure import environment as machine
from headrace.measure.chaos import chaos, trial_of
from headrace.measure.convergence import convergence, row_of
from headrace.measure.estimate import phases
from headrace.measure.observer import TrialBegun
from headrace.measure.operate.loop import operate
from headrace.measure.operate.policy_trial import trial_of as operated_trial
from headrace.measure.operate.sharing import share
from headrace.measure.progress import Progress, waiting_for
from headrace.measure.results import result
from headrace.measure.series import SATURATED_S, TrialSeries
from headrace.measure.trial import trial
from headrace.measure.turns import COMPARED, Starts, compared
from headrace.model.paired import decided, turns_of
from headrace.model.undisturbed import capacity, of_usual_state, usual_lines
from headrace.record.bundle import BundleUnwritable, BundleWriter, now
from headrace.record.chaos import CHAOS, CHAOS_FILE
from headrace.record.environment import Environment
from headrace.record.estimates import Capacity
from headrace.record.identity import Phase
from headrace.record.operate import OPERATE, OPERATE_FILE
from headrace.record.resolved import Resolved
from headrace.record.rows import Result, Trial
from headrace.record.slices import Sliced
from headrace.record.text import duration
from headrace.spec.deployment import Deployment
from headrace.spec.measure import Chaos, Convergence
from headrace.spec.operate import Operate

MORE_STARTS = 2  # times those that a comparison takes, where it is not decided before

# Called when the bundle is finished; True: also on the terminal, as the page may not be written.
Report = Callable[[Path, bool], object]


class Session:
    """It is had by `session` only, which ends it."""

    def __init__(self, bundle: BundleWriter, progress: Progress, wait_s: float) -> None:
        self.bundle, self.progress = bundle, progress
        self.results: list[Result] = []
        self.failed: dict[str, str] = {}  # chain of a point: why it could not be measured
        self.trials, self.saturated_s = 0, SATURATED_S
        self._wait_s = wait_s
        self._environment: Environment | None = None
        self._memory: Memory | None = None
        self._undo = contextlib.ExitStack()  # in reverse
        self.state = self._undo.enter_context(run_state())
        self.stopwatch = Stopwatch()
        self._at_end: list[Callable[[], None]] = []  # when nothing of the run is left
        self._starts = Starts()
        self._in_turn: list[Trial] = []  # the comparison's
        self.site = Site(
            self.state, progress.say, self.stopwatch, bundle.path, status=progress.status
        )

    def close(self) -> None:
        self._undo.close()
        for what_is_left in self._at_end:
            what_is_left()
        with contextlib.suppress(BundleUnwritable):  # the bundle's end says so
            self.bundle.sample("time.json", json.dumps(self.stopwatch.seconds, indent=1))

    def inputs(
        self,
        given: str,
        files: Mapping[str, Path],
        points: Sequence[Point] = (),
        resolved: Resolved = Resolved(),
    ) -> None:
        """The spec as given and as `resolved`, and copies of its files: so it can be replayed. They
        are called as the spec calls them, whatever a bundle that is replayed calls its own."""
        copies = {}
        for i, (name, source) in enumerate(sorted(files.items())):
            copy = self.bundle.input(f"{i}-{Path(name).name or source.name}", source)
            copies[name] = str(copy.relative_to(self.bundle.path))
        experiments = tuple(point.resolved() for point in points)
        whole = resolved.model_copy(update={"inputs": copies, "experiments": experiments})
        self.bundle.spec(given, whole.as_json())

    def hold(self, cpus: Iterable[int]) -> None:
        """Lcores that nobody else has until the session ends."""
        wanted = frozenset(cpus)
        if wanted:
            _load()
        self._undo.enter_context(HeldLcores(wanted, self._waiting, self._wait_s))

    def provide(self, deployment: Deployment, hosted_mb: int = 0) -> None:
        """Memory for engines. To be asked for once the lcores are held."""
        self._memory = provide(deployment, self.state, hosted_mb)
        self.progress.say(f"memory: {escape(self._memory.note)}")
        prefix = dpdk_prefix(self.state.path)
        engine = PlanEngine(hugepages=self._memory.hugepages, file_prefix=prefix)
        self.site = replace(self.site, engine=engine)

    @property
    def memory(self) -> Memory:
        assert self._memory is not None, "no memory was provided"
        return self._memory

    def _waiting(self, cpu: int) -> None:
        self.progress.say(waiting_for(cpu, self._wait_s))

    def run(self, checked: Checked) -> None:
        """Repetitions outside, points inside, each as often as its study says: what is compared is
        interleaved, so that a machine that slows down does so for all alike."""
        self._undo.callback(checked.close)
        own = (note for point in checked.points for note in point.notes)
        for note in dict.fromkeys((*checked.notes, *own)):
            self.progress.say(f"note: {note}")
        self.hold(frozenset[int]().union(*(point.cpus for point in checked.points)))
        if checked.memory is not None:
            self.provide(checked.memory, checked.hosted_mb)
        self._compare(checked)
        most = max((point.study.repetitions for point in checked.points), default=1)
        every = range(1, most + 1)
        rounds = [range(n, n + 1) for n in every] if checked.interleaved else [every]
        for turn, after_searches in itertools.product(rounds, phases(checked)):
            for point in checked.points:
                mine = range(turn.start, min(turn.stop, point.study.repetitions + 1))
                if not mine:
                    continue
                label = ", ".join((point.chain, point.execution, point.offers[0].workload))
                if len(rounds) > 1:
                    label += f", repetition {turn[0]}"
                self.progress.experiment(label)
                try:
                    self._point(point, mine, after_searches, each_trial=not checked.interleaved)
                except HeadraceError as error:
                    if not checked.apart or isinstance(error, BundleUnwritable):
                        raise
                    self.failed[point.chain] = str(error)
                    self.progress.say(f"{escape(point.chain)}: failed: {escape(str(error))}")
                self.progress.finished()

    def _compare(self, checked: Checked) -> None:
        """Executions of one chain in turn, as often as is asked: what the machine does to one of
        them it does to the next."""
        points = compared(checked)
        if not points:
            return
        turns = max(point.study.measure.pairs for point in points)
        names = ", ".join(dict.fromkeys(point.execution for point in points))
        self.progress.say(f"comparing {names}: {turns} times in turn")
        began, starts, wanted, why = time.monotonic(), 0, turns * len(points), ""
        while starts < MORE_STARTS * wanted:
            if not self._starts.enough(points, turns):
                lacking = (
                    "the hypervisor had lcores elsewhere"
                    if self._starts.all_tell(points)
                    else "others took too much of the lcores"
                )
            elif not self._decided(points, turns):
                lacking = "they were not told apart"
            else:
                break
            why = lacking if starts == wanted else why
            point = self._starts.next_compared(points)
            starts += 1
            self.progress.status(f"{point.execution}, start {starts} of {max(starts, wanted)}")
            self._saturate(point)
        text = f"  {starts} starts in {duration(time.monotonic() - began)}"
        if starts > wanted:
            text += f", {starts - wanted} of them more, as {why}"
        telling = {(t.chain, t.execution) for t in self._in_turn if t.capacity is not None}
        if not telling.issuperset((point.chain, point.execution) for point in points):
            text += "; they do not tell which is best"
        self.progress.say(text)

    def _decided(self, points: Sequence[Point], turns: int) -> bool:
        groups = {(p.chain, offer.workload) for p in points for offer in p.offers}
        return all(decided(turns_of(self._in_turn, *group), turns) for group in groups)

    def _saturate(self, point: Point) -> None:
        at_limit = self.deployed(point, at_limit=True)
        with at_limit as deployed, self.stopwatch.phase("measuring"):
            for offer in point.offers:
                if deployed.lacks(offer) is None:
                    TrialSeries(self, deployed, point, offer, None).saturate()

    def capacity(self, point: Point, offer: Offer, repetition: int) -> Capacity | None:
        """It goes by this point's starts in the comparison: there all were in one state of the
        machine, as short a time as each other, with as short a wire. Where there was none, or too
        little of it was left alone, by this repetition's own trials, in the state of the machine
        that most of the session's are of; or if it never was in that, in its own."""
        in_turn = self._starts.of(point, offer, (COMPARED,))
        own = self._starts.of(point, offer, (repetition,))
        usual = self._starts.lines()
        return capacity(in_turn, usual) or capacity(own, usual) or capacity(own)

    def ran_elsewhere(self) -> bool:
        """Whether a hypervisor had the last trial's lcores elsewhere than in most of the run."""
        return not self._starts.last_trial_counts()

    def _point(
        self, point: Point, repetitions: range, after_searches: bool, each_trial: bool
    ) -> None:
        """`each_trial`: what the layers say is told of each trial by itself; a search has too many
        of them for that."""
        with self.deployed(point) as deployed:
            with self.stopwatch.phase("verifying"):
                deployed.verify()
            with self._samples(point, deployed, each_trial) as watch:
                measure = point.study.measure
                if measure.chaos is not None:
                    self._kill(point, deployed, measure.chaos, repetitions[0])
                    return
                if measure.convergence is not None:
                    self._converge(point, deployed, measure.convergence)
                    return
                if measure.operate is not None:
                    self._operate(point, deployed, measure.operate, repetitions[0])
                    return
                for offer in point.offers:
                    if (why := deployed.lacks(offer)) is not None:
                        self.progress.say(f"  {offer.workload}: skipped: {why}")
                        continue
                    with self.stopwatch.phase("measuring"):
                        series = TrialSeries(
                            self, deployed, point, offer, watch if each_trial else None
                        )
                        series.run(repetitions, after_searches)

    def _kill(self, point: Point, deployed: Deployed, asked: Chaos, repetition: int) -> None:
        """One trial; what it left on the machine is seen when the run is over."""
        killable = deployed.killable()
        if killable is None:
            raise HeadraceError(f"{point.execution}: has no VNFs that could be killed")
        self.trials += 1
        number, started_at = self.trials, now()
        with self.stopwatch.phase("measuring"):
            load = point.study.measure.rates[0]
            outcome = chaos(killable, asked, load, self.progress.say)

        def told() -> None:
            whole = outcome.model_copy(update={"left": tuple(killable.left())})
            self.bundle.sample(CHAOS_FILE.format(number), whole.model_dump_json(indent=1) + "\n")
            one = trial_of(whole, killable.frame_bytes, load, point, number, repetition, started_at)
            self.bundle.trial(one)
            self.keep([result(one, CHAOS)])

        self._at_end.append(told)

    def _converge(self, point: Point, deployed: Deployed, asked: Convergence) -> None:
        converging = deployed.converging()
        if converging is None:
            raise HeadraceError("there are no routing daemons whose routes could change")
        with self.stopwatch.phase("measuring"):
            for change in convergence(converging, asked, self.progress.say):
                self.keep([row_of(change, point)])

    def _operate(self, point: Point, deployed: Deployed, asked: Operate, repetition: int) -> None:
        """A trial for each policy, and for each of several chains that share lcores."""
        sharing = deployed.sharing()
        alone = deployed.operable() if sharing is None else None
        for name in asked.policy:
            started_at, say = now(), self.progress.say
            with self.stopwatch.phase("measuring"):
                if sharing is not None:
                    runs = share(sharing, asked, name, repetition, say)
                elif alone is not None:
                    runs = {point.chain: operate(alone, asked, name, repetition, say)}
                else:
                    raise HeadraceError(f"{point.execution}: its lcores cannot be added or removed")
            for chain, run in runs.items():
                self.trials += 1
                log = run.log.model_dump_json(indent=1)
                self.bundle.sample(OPERATE_FILE.format(self.trials), f"{log}\n")
                one = operated_trial(run, point, chain, self.trials, repetition, started_at)
                self.bundle.trial(one)
                self.keep([result(one, f"{OPERATE} {name}", operated=run.log.operated)])

    @contextlib.contextmanager
    def deployed(self, point: Point, at_limit: bool = False) -> Iterator[Deployed]:
        with point.deploy(replace(self.site, at_limit=at_limit)) as deployed:
            self._starts.begin()
            self._note_environment(deployed)
            for note in deployed.notes:
                self.progress.say(note)
            self.progress.observer.deployed(point, deployed)
            try:
                yield deployed
            finally:
                self.progress.observer.deployed(point, None)

    def trial(
        self,
        deployed: Deployed,
        point: Point,
        offer: Offer,
        load_pps: float,
        seconds: float,
        phase: Phase,
        repetition: int,
        watch: Watch | None = None,
        slices: list[Sliced] | None = None,
    ) -> list[Trial]:
        """Numbered, judged and written down. `slices`: where the trial's are put."""
        self.trials += 1
        begun = TrialBegun(
            number=self.trials, phase=phase, repetition=repetition, workload=offer.workload,
            load_pps=load_pps, seconds=seconds,
        )  # fmt: skip
        self.progress.observer.trial_begins(begun)
        own = list[Sliced]()
        judged = trial(
            deployed, point, offer, load_pps, seconds,
            phase=phase, repetition=repetition, number=self.trials, watch=watch, slices=own,
        )  # fmt: skip
        lines = usual_lines(own)
        if lines:
            share = min(of_usual_state(one, lines) for one in own)
            states = {"line_cycles": fmean(lines.values()), "line_share": share}
            judged = [one.model_copy(update=states) for one in judged]
        if phase != "warm-up":
            told = any(one.capacity is not None for one in judged)
            self._starts.add(point, offer, repetition, own, told)
        if slices is not None:
            slices += own
        for one in judged:
            self.bundle.trial(one)
        self._in_turn += judged if phase == "capacity" else ()
        self.progress.observer.trial_ends(judged)
        return judged

    def keep(self, results: Sequence[Result]) -> None:
        interrupts.hold()  # what is in the bundle is known here: an interrupted run reports it
        try:
            for one in results:
                self.bundle.result(one)
                self.results.append(one)
        finally:
            interrupts.let_go()
        self.progress.observer.results(results)

    @contextlib.contextmanager
    def _samples(self, point: Point, deployed: Deployed, each_trial: bool) -> Iterator[Watch]:
        """What the layers say meanwhile: in samples/ itself when there is one deployment only."""
        folder = self.bundle.path / "samples"
        if self.progress.total > 1:
            folder /= f"{self.progress.done + 1:03}"
        with contextlib.ExitStack() as stack:
            with self.stopwatch.phase("collectors"):
                watched = watching(
                    point.study.collect, deployed.parts(), folder, each_trial=each_trial,
                    elsewhere=deployed.elsewhere(),
                )  # fmt: skip
                watch = stack.enter_context(watched)
            try:
                yield watch
            finally:
                with self.stopwatch.phase("collectors"):
                    stack.close()

    def _note_environment(self, deployed: Deployed) -> None:
        if self._environment is None:
            note = "the ground's own" if self._memory is None else self._memory.note
            self._environment = machine.collect(deployed.about(), note)
            self.bundle.environment(self._environment)
            elsewhere = self._environment.simulated or self._environment.servers
            calibration = None if elsewhere else store.calibration()
            if calibration is not None:
                self.bundle.calibration(calibration)

    def finish(self) -> None:
        """What is known at a run's end only: what else the machine did."""
        if self._environment is not None:
            self._environment = machine.with_noise_after(self._environment)
            self.bundle.environment(self._environment)


def new_bundle(out: Path | None, name: str) -> BundleWriter:
    """A name that the user gave is taken as it is; one that we make gives way to others."""
    if out is not None:
        return BundleWriter(out, command=sys.argv, version=headrace.__version__)
    path = Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
    return BundleWriter.beside(path, command=sys.argv, version=headrace.__version__)


@contextlib.contextmanager
def measuring(name: str, report: Report = lambda path, shown: None) -> Iterator[Session]:
    """A session for a command that decides itself what is measured next."""
    progress = Progress(Terminal(stderr=True, highlight=False), 1, 0.0)
    with session(new_bundle(None, name), progress, report) as opened:
        yield opened


# What trials need, and a command that measures nothing does not: a third of a second to load.
_NEEDED = ("hdrh.histogram", "headrace.model.undisturbed", "pyroute2")


def _load() -> None:
    """Loads them before lcores are held: beside an engine that polls there is little time for
    it."""
    for name in _NEEDED:
        importlib.import_module(name)


@contextlib.contextmanager
def session(
    bundle: BundleWriter, progress: Progress, report: Report, wait_s: float = WAIT_S
) -> Iterator[Session]:
    """However it ends, nothing but the bundle is left, and what was measured is in it."""
    slow_start.over()
    opened: Session | None = None
    interrupts.hold()
    try:
        with bundle:
            opened = Session(bundle, progress, wait_s)
            with contextlib.closing(opened):
                try:
                    interrupts.let_go()
                    yield opened
                    opened.finish()
                finally:
                    interrupts.hold()  # until all is undone and written
    except BaseException as error:
        progress.close()
        _ended_by(error, bundle.path, opened, progress, report)
        raise
    else:
        progress.close()
        if interrupts.pending():
            interrupts.told = True
            progress.say(f"interrupted when it had ended; see {escape(str(bundle.path))}")
    finally:
        interrupts.let_go()


def _ended_by(
    error: BaseException, target: Path, opened: Session | None, progress: Progress, report: Report
) -> None:
    interrupted, named = isinstance(error, KeyboardInterrupt), escape(str(target))
    interrupts.told = interrupted
    if opened is None or not opened.results:
        if isinstance(error, BadInput):
            shutil.rmtree(target)  # found wrong when it was loaded, before anything was measured
        elif interrupted and (opened is None or not opened.trials):
            shutil.rmtree(target)  # while it waited for lcores, say
            progress.say("interrupted before anything was measured")
        elif interrupted:
            progress.say(f"interrupted before a first result; see the trials in {named}")
        return
    if isinstance(error, BundleUnwritable):
        with contextlib.suppress(BundleUnwritable):  # it says the same of another file
            report(target, True)
    else:
        report(target, False)
        named += f": headrace report {named}"
    progress.say(("interrupted; " if interrupted else "") + f"what was measured is in {named}")
