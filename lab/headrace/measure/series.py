# SPDX-License-Identifier: Apache-2.0
"""What a study's `measure` asks of one deployed point: warm-up, maximum, fixed loads, search."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from headrace.collect.watch import Watch
from headrace.ground.contract import Deployed, Offer, Point
from headrace.measure.audit import DISTURBED, starved
from headrace.measure.doubts import of_maximum
from headrace.measure.outcome import Limits, Outcome
from headrace.measure.progress import Progress
from headrace.measure.results import result, searched
from headrace.measure.turns import COMPARED
from headrace.record.estimates import Capacity
from headrace.record.figures import ApplicationFigures
from headrace.record.identity import Phase
from headrace.record.rows import Measurement, Result, Trial
from headrace.record.text import between, duration, rate
from headrace.record.verdict import Finding
from headrace.spec.measure import LoadShare

# A trial that the tester or the machine disturbed says nothing about the chain and is done again;
# at most so often per search, as on a machine where it always happens that would never end.
# Before it is, what disturbed it is waited for.
RETRIES = 6
# What ran while a hypervisor had the lcores elsewhere than in most of the run is of another machine
# (model/lines_between.py), and done again, too: so often per search, and per load.
RETRIES_ELSEWHERE = 6
RETRIES_OF_LOAD = 3
EXPLAINED = 2.0  # times the packets that were due while something held the lcores
LOOK_S = 0.3
LEFT_ALONE = 0.97  # of the slices of a look
SATURATED_S = 1.0  # the first trial for an execution's capacity,
LONGER = 1.5  # times as long as the one before where that told nothing,
LONGEST_S = 3.0  # but no longer than this;
NEEDED = 50  # undisturbed slices at its limit: those of a capacity, and some more


class Book(Protocol):
    """Where trials and results go: the session."""

    progress: Progress
    trials: int
    saturated_s: float  # how long a trial for an execution's capacity takes
    results: list[Result]

    def capacity(self, point: Point, offer: Offer, repetition: int) -> Capacity | None: ...
    def ran_elsewhere(self) -> bool: ...

    def trial(
        self,
        deployed: Deployed,
        point: Point,
        offer: Offer,
        load_pps: float,
        seconds: float,
        phase: Phase,
        repetition: int,
        watch: Watch | None,
    ) -> list[Trial]: ...
    def keep(self, results: Sequence[Result]) -> None: ...


class TrialSeries:
    """The trials of one point under one offer."""

    def __init__(
        self, book: Book, deployed: Deployed, point: Point, offer: Offer, watch: Watch | None
    ) -> None:
        """`watch`: who notes each trial by itself."""
        self._book, self._deployed, self._point, self._offer = book, deployed, point, offer
        self._watch = watch
        study = point.study
        self._measure = offer.measure or study.measure
        self._warmup_s = study.warmup
        self._by_number: dict[int, list[Trial]] = {}
        self._retries, self._repetition, self._paused_s = RETRIES, 0, 0.0
        self._retries_elsewhere = RETRIES_ELSEWHERE

    def saturate(self) -> None:
        """One trial at as many packets as its lcores can take, for what they can carry; again, and
        longer, while too little of it was left alone. The next start's is as long as this one
        needed to be: where others take much of the machine, a second was in vain each time."""
        self._repetition = COMPARED
        self._warm_up()
        told, seconds = False, 0.0
        while not told and seconds < LONGEST_S:
            seconds = needed = self._book.saturated_s
            last = self._trial(0, seconds, "capacity")[-1]
            if last.counters is None:
                return
            if told := last.capacity is not None:
                least = min(p.slices for p in last.capacity.parts if p.role == "chain")
                needed *= NEEDED / least
            else:
                needed *= LONGER
            self._book.saturated_s = min(LONGEST_S, max(SATURATED_S, needed))

    def run(self, repetitions: Sequence[int], after_searches: bool = False) -> None:
        """Warmed up once: each repetition begins where the one before it ended. `after_searches`:
        only the loads that are a part of what the searches of all points found."""
        self._repetition = repetitions[0]
        self._warm_up()
        for self._repetition in repetitions:
            if not after_searches:
                self._repeat()
                continue
            for share in self._measure.shares:
                self._part(share)

    def _warm_up(self) -> None:
        if self._warmup_s:
            self._book.progress.status("warming up")
            # A quarter of what the tester can: every flow is seen, and no queue is left full.
            self._trial((self._most() or 0.0) / 4, self._warmup_s, "warm-up")

    def _capacity(self) -> Capacity | None:
        return self._book.capacity(self._point, self._offer, self._repetition)

    def _repeat(self) -> None:
        if self._measure.max:
            self._maximum()
        for load in self._measure.rates:
            self._fixed(load)
        if self._measure.search:
            # Above the tester's own maximum nothing can be learnt.
            highest = self._most() or self._trial(0, self._measure.trial, "warm-up")[0].sent_pps
            lowest = min(self._measure.min_load, highest / 2)
            self._search(Limits(lowest, highest, self._measure.search_timeout))

    def _part(self, share: LoadShare) -> None:
        """The same load in all repetitions, lest they differ by what the searches found."""
        whose = share.execution or self._point.execution
        bound = next(
            (
                one.bounds.lower_pps
                for one in self._book.results
                if (one.chain, one.execution, one.goal) == (self._point.chain, whose, share.goal)
                and one.workload == self._offer.workload
                and one.bounds is not None
            ),
            None,
        )
        if not bound:
            why = f"the search found no load that meets {share.goal} with {whose}"
            self._book.progress.say(f"  {share.text}: skipped: {why}")
            return
        self._fixed(float(round(bound * share.share)), share.text)

    def _most(self) -> float | None:
        return self._measure.max_load or self._deployed.most_pps(self._offer)

    def _trial(self, load_pps: float, seconds: float, phase: Phase) -> list[Trial]:
        trials = self._book.trial(
            self._deployed, self._point, self._offer, load_pps, seconds, phase,
            self._repetition, None if phase == "warm-up" else self._watch,
        )  # fmt: skip
        self._by_number[trials[-1].trial] = trials
        return trials

    def _usual_trial(self, load_pps: float, phase: Phase) -> list[Trial]:
        """A trial with lcores where they are in most of the run, or the last of some tries."""
        trials = self._trial(load_pps, self._measure.trial, phase)
        for _ in range(RETRIES_OF_LOAD):
            if not self._book.ran_elsewhere():
                break
            self._book.progress.say("  once more: the hypervisor had lcores elsewhere than mostly")
            trials = self._trial(load_pps, self._measure.trial, phase)
        return trials

    def _maximum(self) -> None:
        self._book.progress.status("maximum rate")
        trials = self._usual_trial(0, "max")
        last = trials[-1]
        whose = of_maximum if self._offer.paced else lambda one: one.audit
        self._book.keep(
            [result(t, "max", audit=whose(t), capacity=self._capacity()) for t in trials]
        )
        if not self._say_application(last):
            self._book.progress.say(
                f"  max: {rate(last.throughput_pps)} of {rate(last.sent_pps)}" + _by_policy(last)
            )

    def _fixed(self, load: float, share: str | None = None) -> None:
        self._book.progress.status(f"at {rate(load)}")
        trials = self._usual_trial(load, "fixed")
        self._book.keep(
            [result(t, "fixed", load_share=share, capacity=self._capacity()) for t in trials]
        )
        last = trials[-1]
        if self._say_application(last):
            return
        in_sum = ", in sum" if len(trials) > 1 else ""
        self._book.progress.say(
            f"  at {rate(load)}{_each_way(trials)}{in_sum}: {rate(last.throughput_pps)}, "
            f"loss {last.loss_ratio:.3%}" + _by_policy(last)
        )

    def _say_application(self, one: Measurement) -> bool:
        """What clients report of it, where there are some."""
        if one.application is None:
            return False
        self._book.progress.say(f"  {self._offer.workload}: {_of_clients(one, one.application)}")
        return True

    def _search(self, limits: Limits) -> None:
        began, first = time.monotonic(), self._book.trials
        self._retries, self._paused_s = RETRIES, 0.0
        self._retries_elsewhere = RETRIES_ELSEWHERE
        from headrace.measure.search import search  # its library takes half a second to load

        goals = search(
            self._measure.search,
            limits,
            self._outcome,
            lambda bounds: self._book.progress.bounds(bounds, self._book.trials - first),
        )
        seconds, count = time.monotonic() - began, self._book.trials - first
        for goal in goals:
            if goal.sample is None:
                continue
            trials = self._by_number[goal.sample.outcome.trial]
            results = searched(trials, goal, limits, count, seconds, self._capacity())
            self._book.keep(results)
            verdict = results[-1].audit.verdict
            self._book.progress.say(
                f"  {goal.goal.name} (at most {goal.goal.loss_ratio * 100:.10g} % lost): "
                f"{between(goal.lower_pps, goal.upper_pps)}{_each_way(trials)}"
                + ("" if verdict == "ok" else f" [yellow]{verdict}[/yellow]")
                + _by_policy(results[-1])
            )
        paused = f", {duration(self._paused_s)} of it paused for other work on the lcores to pass"
        self._book.progress.say(
            f"  {count} trials in {duration(seconds)}" + (paused if self._paused_s >= 1 else "")
        )

    def _outcome(self, load_pps: float, seconds: float) -> Outcome:
        total = self._trial(load_pps, seconds, "search")[-1]
        while self._again(total):
            total = self._trial(load_pps, seconds, "search")[-1]
        return Outcome(
            total.trial, total.intended, total.sent, total.lost,
            _disturbed(total), starved(total.audit.findings),
        )  # fmt: skip

    def _again(self, total: Trial) -> bool:
        """Whether this trial is to be done again; what disturbed it is waited for."""
        if _disturbed(total) and self._retries > 0:
            self._retries -= 1
            self._pause()
            return True
        if self._book.ran_elsewhere() and self._retries_elsewhere > 0:
            self._retries_elsewhere -= 1
            return True
        return False

    def _pause(self) -> None:
        """Waits until what disturbed a trial has passed: it would disturb the next one, too."""
        began = time.monotonic()
        while self._paused_s + (time.monotonic() - began) < self._measure.patience:
            share = self._deployed.left_alone(LOOK_S)
            if share is None or share >= LEFT_ALONE:
                break
            self._book.progress.status("paused, as other work has the lcores")
        self._paused_s += time.monotonic() - began


def _each_way(trials: Sequence[Trial]) -> str:
    """Loads are those of a source; with traffic both ways there are two, and a row of their sum."""
    return " each way" if len(trials) > 1 else ""


def _by_policy(one: Measurement) -> str:
    """What neither the loss nor the throughput has is said beside them."""
    if not one.policy_dropped:
        return ""
    return f", {one.policy_dropped / max(one.sent, 1):.3%} dropped by policy"


def _of_clients(one: Measurement, application: ApplicationFigures) -> str:
    gbps = f"{application.gbps:.3f} Gbit/s"
    if application.requests:
        return f"{application.requests_per_s:.0f} requests/s, {gbps}"
    if not one.intended:
        return gbps
    lost = f"{rate(one.received_pps)}, {one.loss_ratio:.2%} lost"
    delay = one.latency_ns
    if delay is None:
        return lost
    return f"{lost}, p50 {delay.p50 / 1000:.0f} µs, p99 {delay.p99 / 1000:.0f} µs"


def _disturbed(one: Trial) -> bool:
    """Lost, or not sent, for the machine's sake, as far as one can tell. What a limit that the spec
    gives turned away was lost for that, whatever else went on; and of far more than was on its way
    while something held the lcores the rest was too much for the chain."""
    if starved(one.audit.findings):
        return True
    if not one.lost or one.lost <= 2 * sum(limit.dropped for limit in one.limits):
        return False
    failed = [f for f in one.audit.failed if f.check in DISTURBED]
    held = sum(_held(f, one) for f in failed)
    return bool(failed) and one.lost <= EXPLAINED * held * one.sent


def _held(finding: Finding, one: Trial) -> float:
    """The share of a trial's packets that what was found may have cost."""
    value = finding.value or 0.0
    if finding.check == "sink":
        return value / one.sent if one.sent else 0.0
    if finding.check == "stall":
        return value / 1e9 / one.duration_s if one.duration_s else 0.0
    return value
