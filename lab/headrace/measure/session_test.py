# SPDX-License-Identifier: Apache-2.0
"""The session on a ground that measures nothing: what it deploys when, what it keeps however a run
ends, and which trials it does again."""

from __future__ import annotations

import contextlib
import io
import signal
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from headrace.analyse.bundle_report import report
from headrace.analyse.diff import diff
from headrace.collect.collector import Targets
from headrace.errors import BadInput, HeadraceError
from headrace.ground.contract import Checked, Converging, Deployed, Killable, Looking, Offer, Site
from headrace.ground.operable import Operable, SharedOperable
from headrace.host import interrupts
from headrace.measure.progress import Progress
from headrace.measure.series import RETRIES_ELSEWHERE
from headrace.measure.session import Session, session
from headrace.model.paired_test import capacity
from headrace.record.bundle import Bundle, BundleUnwritable, BundleWriter
from headrace.record.convergence import RouteChange
from headrace.record.counters import Counters
from headrace.record.facts import Facts, Observation
from headrace.record.figures import Figures
from headrace.record.resolved import ResolvedPoint
from headrace.record.segments import Segment
from headrace.record.slices import ReplicaSlices, Sliced
from headrace.record.verdict import Finding
from headrace.spec.measure import Measure
from headrace.spec.study import Study

CAPACITY = 1e6
Fault = Callable[[int], None]  # told how many trials there were


def no_fault(trials: int) -> None:
    pass


@dataclass
class Fake:
    """A point, and itself deployed. It carries a million packets/s; at a fault's call it fails."""

    chain: str
    log: list[str]
    measure: dict[str, Any] = field(default_factory=lambda: {"loads": [1000]})
    fault: Fault = no_fault
    disturbed: int = 0  # so many trials that lose packets lose them at the sink
    behind: float = 0.0  # the part of each trial for which its source stalls once
    lacking: str | None = None
    repetitions: int = 1
    both: bool = False  # traffic both ways: each carries `capacity`
    execution: str = "rtc"
    capacity: float = CAPACITY
    labels: Sequence[str] = ()
    notes: Sequence[str] = ()
    runs: Sequence[str] = ()
    segments: tuple[Segment, ...] = ()
    cpus: frozenset[int] = frozenset()
    shares: list[float] = field(default_factory=list)  # what each look finds was left alone
    lines: list[float] = field(default_factory=list)  # cycles of a line between lcores, by trial
    each: list[float] = field(default_factory=list)  # what slices say it can carry, by trial
    trials: int = 0
    going: tuple[float, float] = (0.0, 0.0)

    @property
    def study(self) -> Study:
        return Study.model_validate(
            {
                "name": "fake",
                "chain": [],
                "warmup": 0,
                "measure": self.measure,
                "repetitions": self.repetitions,
            }
        )

    @property
    def offers(self) -> Sequence[Offer]:
        return [Offer("64B", None)]

    def looking(self) -> Looking | None:
        return None

    def killable(self) -> Killable | None:
        return None

    def operable(self) -> Operable | None:
        return None

    def sharing(self) -> Mapping[str, SharedOperable] | None:
        return None

    def converging(self) -> Converging | None:
        return self if self.measure.get("convergence") is not None else None

    def changes(self, repetition: int) -> Iterator[RouteChange]:
        for event in ("announce", "withdraw"):
            yield RouteChange(
                daemon="bird", event=event, repetition=repetition, routes=500,
                per_s=1e4 * repetition, seconds=0.05, reaction_s=0.01, busy={"bird": 0.5},
            )  # fmt: skip

    def resolved(self) -> ResolvedPoint:
        return ResolvedPoint(chain=self.chain, execution=self.execution)

    @contextlib.contextmanager
    def deploy(self, site: Site) -> Iterator[Deployed]:
        self.log.append(f"deploy {self.chain}" + " at its limit" * site.at_limit)
        assert site.state.path.is_dir()
        yield self
        self.log.append(f"undo {self.chain}")

    def about(self) -> None:
        return None

    def parts(self) -> Targets:
        return Targets()

    def elsewhere(self) -> None:
        return None

    def verify(self) -> Sequence[Finding]:
        return ()

    def left_alone(self, seconds: float) -> float | None:
        self.log.append("look")
        return self.shares.pop(0) if self.shares else None

    def most_pps(self, offer: Offer) -> float | None:
        return 10 * CAPACITY

    def lacks(self, offer: Offer) -> str | None:
        return self.lacking

    def start(self, offer: Offer, load_pps: float, seconds: float) -> None:
        self.going = load_pps, seconds

    def wait(self) -> None:
        self.trials += 1
        self.log.append(f"trial {self.chain}")
        self.fault(self.trials)

    def read(self) -> Sequence[Observation]:
        load, seconds = self.going
        load = load or 10 * CAPACITY
        sent, received = round(load * seconds), round(min(load, self.capacity) * seconds)
        lost = sent - received
        figures = Figures(
            load_pps=load, throughput_pps=received / seconds, throughput_gbps_l1=0,
            throughput_gbps_l2=0, offered_pps=load, sent_pps=load, received_pps=received / seconds,
            loss_ratio=lost / sent, intended=sent, sent=sent, received=received, lost=lost,
            duration_s=seconds, capacity=capacity(self.each.pop(0)) if self.each else None,
        )  # fmt: skip
        at_sink = lost if lost and self.disturbed > 0 else 0
        self.disturbed -= at_sink > 0
        facts = Facts(
            sent=sent, received=received, lost=lost, asked=sent, sink_full=at_sink,
            behind_s=self.behind * seconds, room_s=self.behind * seconds / 2,
        )  # fmt: skip
        forward = Observation("forward", figures, facts, self._sliced(load))
        if not self.both:
            return [forward]
        sums = ("load_pps", "throughput_pps", "offered_pps", "sent_pps", "received_pps", "intended",
                "sent", "received", "lost")  # fmt: skip
        whole = figures.model_copy(update={name: 2 * getattr(figures, name) for name in sums})
        return [
            forward,
            Observation("reverse", figures, facts),
            Observation("both", whole, replace(facts, sent=2 * sent, received=2 * received,
                                               lost=2 * lost, asked=2 * sent)),
        ]  # fmt: skip

    def _sliced(self, load: float) -> Sliced | None:
        """Slices that tell no more than what a line of another lcore cost."""
        if not self.lines:
            return None
        known = {"ref": np.ones(20), "end": np.arange(20.0), "line": np.full(20, self.lines.pop(0))}
        columns = defaultdict(lambda: np.zeros(20), known)
        one = ReplicaSlices("chain", 0, 1, 1000, 256, columns)
        return Sliced(load, self.segments, Counters(tsc_hz=1000), (one,))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


@dataclass
class Outcome:
    """What became of a run."""

    bundle: Path
    words: str
    reported: list[bool]
    left: list[Path]  # of its state on the machine
    error: BaseException | None = None


def run(home: Path, points: Sequence[Fake], **checked: Any) -> Outcome:
    words, reported, error = io.StringIO(), list[bool](), None
    progress = Progress(
        Console(file=words, width=200), sum(point.repetitions for point in points), 1.0
    )
    writer = BundleWriter(home / "bundle")

    def report(path: Path, shown: bool) -> None:
        assert Bundle(path).status.state != "running"
        reported.append(shown)

    try:
        with session(writer, progress, report) as opened:
            measure(opened, points, **checked)
    except (HeadraceError, KeyboardInterrupt) as caught:
        error = caught
    left = list((home / "headrace").glob("run-*"))
    return Outcome(writer.path, words.getvalue(), reported, left, error)


def measure(opened: Session, points: Sequence[Fake], **checked: Any) -> None:
    opened.inputs("name: fake\n", {}, points)
    opened.run(Checked(points, {}, None, **checked))


def test_what_is_compared_is_interleaved(home: Path) -> None:
    log: list[str] = []
    done = run(home, [Fake("a", log, repetitions=2), Fake("b", log, repetitions=2)])
    assert [line for line in log if line.startswith("trial")] == ["trial a", "trial b"] * 2
    assert log.count("deploy a") == 2 and log[:3] == ["deploy a", "trial a", "undo a"]
    rows = Bundle(done.bundle).results()
    assert [(r.chain, r.repetition, r.trial) for r in rows] == [
        ("a", 1, 1), ("b", 1, 2), ("a", 2, 3), ("b", 2, 4),
    ]  # fmt: skip
    assert done.error is None and done.left == [] and not done.reported


@pytest.mark.parametrize("interleaved", [True, False])
def test_each_point_is_repeated_as_often_as_its_own_study_says(
    home: Path, interleaved: bool
) -> None:
    """Groups, and files of one folder, differ in that."""
    points = [Fake("a", []), Fake("b", [], repetitions=3)]
    rows = Bundle(run(home, points, interleaved=interleaved).bundle).results()
    assert [(r.chain, r.repetition) for r in rows] == [("a", 1), ("b", 1), ("b", 2), ("b", 3)]


def test_executions_of_one_chain_are_compared_in_turn(home: Path) -> None:
    """Deployed anew in each turn, before anything else; another chain is compared with none."""
    log: list[str] = []
    measure = {**SEARCH, "pairs": 3}
    inside = (Segment(name="chain", cpus=(1,)),)
    points = [Fake("c", log, measure, execution=name, segments=inside) for name in ("a", "b")]
    done = run(home, [*points, Fake("d", log, measure, segments=inside)])
    trials = Bundle(done.bundle).trials()
    turns = [(t.execution, t.phase, t.repetition) for t in trials[:6]]
    assert turns == [("a", "capacity", 0), ("b", "capacity", 0)] * 3
    assert all(t.phase == "search" for t in trials[6:]) and log.count("deploy c") == 2
    assert log.count("deploy c at its limit") == 3 * 2
    assert log.count("deploy d") == 1
    assert "comparing a, b: 3 times in turn\n  6 starts in " in done.words
    assert "of them more" not in done.words
    assert "; they do not tell which is best\n" in done.words  # no capacities came of them


def test_a_start_with_lcores_elsewhere_is_made_again(home: Path) -> None:
    """The second start of `b` ran with lines of 344 cycles where 78 had been usual: while they are
    elsewhere `a` is started beside it, and `b` again, which runs where the others did. Each trial
    has what was seen in it. The searches, of many more trials, all ran at 345: what is usual stays
    what it was in the comparison, so that both have trials made again as often as may be."""
    log: list[str] = []
    measure = {**SEARCH, "pairs": 2}
    inside = (Segment(name="chain", cpus=(1,)),)
    lines = [78.0, 79.0, 77.0, 344.0, 342.0, 80.0, *[345.0] * 80]
    points = [
        Fake("c", log, measure, execution=name, segments=inside, lines=lines) for name in ("a", "b")
    ]
    done = run(home, points)
    trials = Bundle(done.bundle).trials()
    starts = [(t.execution, t.line_cycles, t.line_share) for t in trials if t.phase == "capacity"]
    seen = [("a", 78.0), ("b", 79.0), ("a", 77.0), ("b", 344.0), ("a", 342.0), ("b", 80.0)]
    assert starts == [(name, line, 1.0) for name, line in seen]
    assert ", 2 of them more, as the hypervisor had lcores elsewhere" in done.words
    assert {t.line_cycles for t in trials if t.phase == "search"} == {345.0}
    (home / "calm").mkdir()
    [calm] = Bundle(run(home / "calm", [Fake("c", [], SEARCH)]).bundle).results()
    most = [one.bounds.trials for one in Bundle(done.bundle).results() if one.bounds]
    assert calm.bounds and most == [calm.bounds.trials + RETRIES_ELSEWHERE] * 2
    cautions = " ".join(report(Bundle(done.bundle)).cautions)
    assert "The hypervisor moved lcores to other cores meanwhile" in cautions
    assert "took 78.5 TSC cycles in 4 of " in cautions
    assert "; it changed 3 times at least" in cautions


def test_what_has_fewest_starts_is_started_next(home: Path) -> None:
    """The hypervisor moves the lcores for good behind the first start of each: those are waited for
    to come again, until there are twice as many starts as would do; the others are what counts."""
    measure = {**SEARCH, "pairs": 2}
    inside = (Segment(name="chain", cpus=(1,)),)
    lines = [78.0, 78.0, *[344.0] * 80]
    points = [
        Fake("c", [], measure, execution=name, segments=inside, lines=lines) for name in ("a", "b")
    ]
    trials = Bundle(run(home, points).bundle).trials()
    starts = [(t.execution, t.line_cycles) for t in trials if t.phase == "capacity"]
    assert starts == [("a", 78), ("b", 78), *zip("ababab", [344] * 6, strict=True)]


def started(home: Path, pairs: int, names: str, lines: list[float]) -> list[tuple[str, float]]:
    """Executions in the order of their starts, with the lines of each."""
    inside = (Segment(name="chain", cpus=(1,)),)
    measure = {**SEARCH, "pairs": pairs}
    points = [Fake("c", [], measure, execution=n, segments=inside, lines=lines) for n in names]
    trials = Bundle(run(home, points).bundle).trials()
    return [(t.execution, t.line_cycles or 0.0) for t in trials if t.phase == "capacity"]


def test_while_lcores_are_elsewhere_each_is_started_as_often_there(home: Path) -> None:
    """Behind two starts the hypervisor has them elsewhere for six, then back for good."""
    starts = started(home, 3, "abc", [78.0] * 2 + [344.0] * 6 + [78.0] * 80)
    there = [name for name, line in starts if line > 300]
    assert sorted(there) == list("aabbcc")
    back = [name for name, line in starts if line < 300]
    assert min(map(back.count, "abc")) == 3 and len(back) <= 11


def test_nothing_lags_where_lcores_are_moved_behind_each_start(home: Path) -> None:
    """By the state of the start before, `a` would be started here and the others there only."""
    starts = started(home, 4, "abc", [78.0, 344.0] * 80)
    here = [name for name, line in starts if line < 300]
    assert len(starts) < 24 and min(map(here.count, "abc")) >= 3


def test_a_comparison_goes_on_until_it_is_decided(home: Path) -> None:
    """`a` carries 10 % more in each turn but the first, so that two turns tell nothing; the fourth
    start of `b` is the last. What differs by the same in each turn takes no more than is asked."""
    inside = (Segment(name="chain", cpus=(1,)),)
    measure = {**SEARCH, "pairs": 2}
    for folder, first, starts in (("told", 1.1e6, 4), ("not told", 1.2e6, 8)):
        each = {"a": [first, *[1.1e6] * 9], "b": [1e6] * 10}
        points = [
            Fake("c", [], measure, execution=n, segments=inside, each=rates)
            for n, rates in each.items()
        ]
        (home / folder).mkdir()
        done = run(home / folder, points)
        trials = Bundle(done.bundle).trials()
        assert [t.execution for t in trials if t.phase == "capacity"] == list("ab") * (starts // 2)
        more = ", 4 of them more, as they were not told apart\n"
        assert (more in done.words) == (starts > 4)
        assert "do not tell" not in done.words


def test_starts_without_one_beside_them_tell_of_their_own(home: Path) -> None:
    """Each execution ran in a state of the host of its own: no pair, and two capacities."""
    inside = (Segment(name="chain", cpus=(1,)),)
    measure = {**SEARCH, "pairs": 2}
    points = [
        Fake("c", [], measure, execution=n, segments=inside, each=[pps] * 99, lines=[line] * 99)
        for n, pps, line in (("a", 1.1e6, 26.0), ("b", 1e6, 78.0))
    ]
    done = run(home, points)
    assert " starts in " in done.words and "do not tell" not in done.words


def test_trials_with_lcores_elsewhere_are_made_again(home: Path) -> None:
    """Loads up to three times more, a search's trials six times in all; the last one counts."""
    loads = {"loads": [1000, 2000, 3000]}
    lines = [78.0, 79.0, 344.0, 345.0, 78.0]
    (home / "loads").mkdir()
    done = run(home / "loads", [Fake("a", [], loads, lines=lines)])
    rows = Bundle(done.bundle).results()
    assert [(one.load_pps, one.trial) for one in rows] == [(1000, 1), (2000, 2), (3000, 5)]
    (home / "never").mkdir()
    done = run(home / "never", [Fake("a", [], loads, lines=[78.0] * 2 + [344.0] * 40)])
    # After four of 344 cycles these are the commonest, and count.
    assert [one.trial for one in Bundle(done.bundle).results()] == [1, 2, 5]
    tried = {}
    for name, lines in (("calm", []), ("moved", [78.0, 79.0, 344.0, 78.0, 344.0, 342.0])):
        (home / name).mkdir()
        done = run(home / name, [Fake("a", [], SEARCH, lines=lines + [80.0] * 40)])
        [row] = Bundle(done.bundle).results()
        assert row.bounds is not None
        tried[name] = row.bounds.trials
    assert tried["moved"] == tried["calm"] + 3


def test_a_costly_deployment_is_made_once(home: Path) -> None:
    log: list[str] = []
    points = [Fake("a", log, repetitions=2), Fake("b", log, repetitions=2)]
    run(home, points, interleaved=False)
    assert log == [
        "deploy a", "trial a", "trial a", "undo a", "deploy b", "trial b", "trial b", "undo b",
    ]  # fmt: skip


def test_each_trial_is_judged_by_the_audit(home: Path) -> None:
    done = run(home, [Fake("a", [], {"loads": [1000, 2e6]}, disturbed=1)])
    trials = Bundle(done.bundle).trials()
    assert [t.audit.verdict for t in trials] == ["ok", "suspect"]
    assert [f.check for f in trials[1].audit.failed] == ["sink"]


def test_a_load_that_cannot_be_made_after_all_is_skipped(home: Path) -> None:
    done = run(home, [Fake("a", [], lacking="no client"), Fake("b", [])])
    assert [r.chain for r in Bundle(done.bundle).results()] == ["b"]
    assert "64B: skipped: no client" in done.words


def fails_at(trial: int, error: BaseException) -> Fault:
    def fault(trials: int) -> None:
        if trials == trial:
            raise error

    return fault


@pytest.mark.parametrize(
    ("error", "words", "shown"),
    [
        (KeyboardInterrupt(), "interrupted; what was measured is in", False),
        (HeadraceError("engine died"), "what was measured is in", False),
        (BadInput("rules.txt:7: bad"), "what was measured is in", False),
        (BundleUnwritable(Path("x"), "No space left"), "what was measured is in", True),
    ],
)
def test_what_was_measured_is_kept(
    home: Path, error: BaseException, words: str, shown: bool
) -> None:
    log: list[str] = []
    done = run(home, [Fake("a", log, {"loads": [1000, 2000]}, fails_at(2, error))])
    assert done.error is error and words in done.words
    assert (f": headrace report {done.bundle}\n" in done.words) == (not shown)
    bundle = Bundle(done.bundle)
    assert bundle.status.state == "partial" and len(bundle.results()) == 1
    assert done.reported == [shown] and done.left == []


def test_of_bad_input_found_late_nothing_is_left(home: Path) -> None:
    bad = BadInput("rules.txt:7: bad")
    done = run(home, [Fake("a", [], fault=fails_at(1, bad))])
    assert done.error is bad and not done.bundle.exists() and done.left == []
    assert not done.reported


def test_interrupted_before_a_first_result(home: Path) -> None:
    done = run(home, [Fake("a", [], fault=fails_at(1, KeyboardInterrupt()))])
    assert "interrupted before a first result; see the trials in" in done.words
    assert Bundle(done.bundle).status.reason == "interrupted" and not done.reported


def test_interrupted_while_it_waited_leaves_no_bundle(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Session, "hold", wait)
    done = run(home, [Fake("a", [])])
    assert not done.bundle.exists() and done.left == [] and not done.reported
    assert done.words.strip().endswith("interrupted before anything was measured")


SEARCH = {
    "search": [0],
    "goals": {"initial_trial": 0.5, "final_trial": 1, "duration_sum": 1, "width": 0.05},
}


def test_a_disturbed_trial_of_a_search_is_done_again(home: Path) -> None:
    """At most six times: on a machine where it always happens, a search would never end."""
    assert Measure.model_validate(SEARCH).search[0].loss_ratio == 0
    calm = run(home, [Fake("a", [], SEARCH)])
    [result] = Bundle(calm.bundle).results()
    assert result.bounds is not None and result.bounds.lower_pps is not None
    assert result.bounds.lower_pps == pytest.approx(CAPACITY, rel=0.06)
    assert result.audit.verdict == "ok"
    log: list[str] = []
    Path(home / "looks").mkdir()
    done = run(home / "looks", [Fake("a", log, SEARCH, disturbed=1, shares=[0.2, 0.9, 1.0])])
    at = log.index("look")
    # It looks until nothing else has the lcores, and only then tries again.
    assert log[at : at + 4] == ["look", "look", "look", "trial a"] and log.count("look") == 3
    assert "paused" not in done.words  # for less than a second
    for disturbed, again in ((3, 3), (1000, 6)):
        (home / str(disturbed)).mkdir()
        busy = run(home / str(disturbed), [Fake("a", [], SEARCH, disturbed=disturbed)])
        [searched] = Bundle(busy.bundle).results()
        assert searched.bounds is not None
        assert searched.bounds.trials == result.bounds.trials + again
    assert searched.audit.verdict == "suspect"  # what lies above was lost in disturbed trials only


def test_bounds_of_both_ways_are_sums_as_their_load_is(home: Path) -> None:
    """The table's first row is the sum of both ways: its search's bounds, and what stands below the
    lowest load, are of the same."""
    done = run(home, [Fake("a", [], SEARCH, both=True)])
    rows = {one.direction: one for one in Bundle(done.bundle).results()}
    forward, both = rows["forward"].bounds, rows["both"].bounds
    assert forward is not None and forward.lower_pps == pytest.approx(CAPACITY, rel=0.06)
    assert rows["forward"].load_pps == forward.lower_pps
    assert both is not None and both.lower_pps == rows["both"].load_pps == 2 * forward.lower_pps
    assert both.upper_pps is not None and forward.upper_pps is not None
    assert both.upper_pps == 2 * forward.upper_pps > rows["both"].throughput_pps
    assert both.width == forward.width
    [conclusion] = [group.conclusion for group in report(Bundle(done.bundle)).groups]
    assert conclusion is not None and conclusion.standings[0].figure.high == both.upper_pps
    assert " each way" in next(line for line in done.words.splitlines() if "loss-0" in line)


def test_of_both_ways_the_lowest_load_is_told_as_their_sum(home: Path) -> None:
    done = run(home, [Fake("a", [], {**SEARCH, "min_load": 1000}, capacity=10, both=True)])
    assert [s.unmet_pps for g in report(Bundle(done.bundle)).groups for s in g.summaries] == [2000]
    doubts = [
        f for r in Bundle(done.bundle).results() for f in r.audit.failed if f.check == "search"
    ]
    assert ["(1 kpps)" in f.text for f in doubts] == [True, True, False]
    assert "(2 kpps)" in doubts[-1].text


def test_what_is_far_too_much_is_not_tried_again(home: Path) -> None:
    """A stall of a hundredth of a trial explains no loss of nine tenths, as at the first load; one
    of half a trial does."""
    for part, times in ((0.01, 1), (0.5, 7)):
        (home / str(part)).mkdir()
        done = run(home / str(part), [Fake("a", [], SEARCH, behind=part)])
        loads = [t.load_pps for t in Bundle(done.bundle).trials()]
        assert loads.count(max(loads)) == times


def test_a_part_of_what_was_found_is_offered_to_all_after_the_searches(home: Path) -> None:
    """In all repetitions the same load, though the second search finds another one."""
    measure = {
        **SEARCH,
        "pairs": 0,
        "loads": ["50% of loss-0", {"share": 0.5, "goal": "loss-0", "execution": "b"}],
    }
    log: list[str] = []
    a, b = Fake("c", log, measure, execution="a"), Fake("c", log, measure, execution="b")
    a.repetitions = b.repetitions = 2
    b.capacity = 4 * CAPACITY

    def slower(trials: int) -> None:
        b.capacity = CAPACITY if log.count("undo c") >= 4 else b.capacity

    a.fault = slower
    rows = Bundle(run(home, [a, b]).bundle).results()
    offered = {
        one.execution: one.bounds.lower_pps
        for one in rows
        if one.bounds and one.bounds.lower_pps and one.repetition == 1
    }
    assert offered["b"] > 3.5 * CAPACITY > offered["a"] > 0.9 * CAPACITY
    kinds = [(one.execution, one.goal, one.repetition) for one in rows]
    each = [
        [("a", "loss-0", n), ("b", "loss-0", n)] + [("a", "fixed", n)] * 2 + [("b", "fixed", n)] * 2
        for n in (1, 2)
    ]
    assert kinds == [one for several in each for one in several]
    loads = [(one.execution, one.load_pps) for one in rows if one.goal == "fixed"]
    shares = ["50% of loss-0", "50% of loss-0 of b"]
    assert [one.load_share for one in rows if one.goal == "fixed"] == shares * 4
    halves = {name: round(pps / 2) for name, pps in offered.items()}
    turn = [("a", halves["a"]), ("a", halves["b"]), ("b", halves["b"]), ("b", halves["b"])]
    assert loads == turn * 2


def test_a_part_of_what_was_not_found(home: Path) -> None:
    done = run(home, [Fake("a", [], {**SEARCH, "loads": ["50% of loss-0"]}, capacity=10)])
    assert (
        "50% of loss-0: skipped: the search found no load that meets loss-0 with rtc" in done.words
    )
    assert all(one.goal != "fixed" for one in Bundle(done.bundle).results())


def test_what_converges_has_rows_and_no_packets(home: Path) -> None:
    done = run(home, [Fake("a", [], {"convergence": {"rounds": 2}})])
    bundle = Bundle(done.bundle)
    rows = bundle.results()
    assert [(one.goal, one.repetition, one.change and one.change.per_s) for one in rows] == [
        ("convergence announce", 1, 1e4), ("convergence withdraw", 1, 1e4),
        ("convergence announce", 2, 2e4), ("convergence withdraw", 2, 2e4),
    ]  # fmt: skip
    assert bundle.trials() == [] and report(bundle).groups == ()
    assert {one.audit.verdict for one in rows} == {"ok"}
    compared = diff(bundle, bundle).compared
    assert [[c.metric for c in one.changes] for one in compared] == [
        ["change per_s", "change seconds", "change reaction_s"]
    ] * 2
    assert compared[0].changes[0].a == 1.5e4


def test_a_result_is_written_and_known_before_an_interrupt_is(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = BundleWriter.result

    def interrupted(self: BundleWriter, one: Any) -> None:
        written(self, one)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(BundleWriter, "result", interrupted)
    monkeypatch.setattr(interrupts, "received", [])
    monkeypatch.setattr(interrupts, "_raised", False)
    with contextlib.ExitStack() as stack:
        for number in (signal.SIGINT, signal.SIGTERM):
            stack.callback(signal.signal, number, signal.getsignal(number))
        interrupts.catch()
        done = run(home, [Fake("a", [])])
    assert isinstance(done.error, KeyboardInterrupt)
    assert "interrupted; what was measured is in" in done.words and done.reported == [False]
    assert len(Bundle(done.bundle).results()) == 1
