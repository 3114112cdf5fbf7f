# SPDX-License-Identifier: Apache-2.0
"""Policies on a deployment whose costs are round numbers: each lcore carries a million packets/s,
and the model knows of no waiting below that."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from headrace.ground.operable import Assignment, Foresight, Numbers, PlantTelemetry, Totals
from headrace.layout.buckets import TICK_S, BucketedLcores, BucketLoad
from headrace.measure.operate.evened import chosen, even, most_share
from headrace.measure.operate.followed import HighestHeld
from headrace.measure.operate.loop import OperateRun, Tally, operate
from headrace.record.identity import Origin
from headrace.spec.operate import Operate, PolicyName, Slo, StepCosts

CARRIES, BUCKETS = 1e6, 64
SLO = {"p99": 1e-3, "loss": 0}


@dataclass(frozen=True)
class RoundModel:
    most: int = 8
    buckets: int = BUCKETS
    change_s: float = 2e-3
    bucket_s: float = 10e-6
    alone_s: float = 1e-6

    def carries_pps(self, lcores: int) -> float:
        return CARRIES

    def busy(self, lcores: int, pps: Numbers, burst: Numbers | None = None) -> Numbers:
        return pps / CARRIES

    def p99_s(self, lcores: int, pps: float, dearer: float = 1.0) -> float:
        return self.alone_s if pps * dearer < CARRIES else float("inf")


@dataclass
class RoundPlant:
    """`dearer`: what a packet really costs, over what the model says."""

    future: Foresight
    lcores: BucketedLcores
    dearer: float = 1.0
    offered: int = 0

    @property
    def ended(self) -> bool:
        return self.lcores.now_s >= float(self.future.seconds[-1]) - 1e-9

    @property
    def assignment(self) -> Assignment:
        return Assignment(self.lcores.used, self.lcores.owners)

    @property
    def core_seconds(self) -> float:
        return self.lcores.core_seconds

    def read(self) -> PlantTelemetry:
        begin = self.lcores.now_s
        at = begin + (np.arange(100) + 0.5) * TICK_S
        rates = np.interp(at, self.future.seconds, self.future.pps)
        seen = self.lcores.let(rates, CARRIES / self.dearer)
        self.offered = seen.offered
        return PlantTelemetry(
            begin, seen.seconds, seen.offered, seen.dropped, seen.waited_s(0.99), seen.came,
            seen.done, seen.done / seen.seconds * self.dearer / CARRIES,
            np.ones(self.lcores.most), seen.queued, seen.on, seen.pending,
            seen.pending == 0 and len(self.lcores.used) == self.lcores.lcores,
        )  # fmt: skip

    def packets(self) -> Numbers:
        packets: Numbers = self.lcores.load.shares * self.offered
        return packets

    def act(self, wanted: Assignment) -> int:
        return self.lcores.change(wanted.lcores, wanted.owners)

    def totals(self) -> Totals:
        offered, done, dropped, _ = (int(one) for one in self.lcores.total)
        return Totals(offered, done, dropped, self.lcores.queued, 0)


@dataclass(frozen=True)
class RoundOperable:
    future: Foresight
    model: RoundModel = RoundModel()
    dearer: float = 1.0
    frame_bytes: float = 64.0
    labels: tuple[str, ...] = ()
    origin: Origin = "predicted"
    moving_s: float = 10e-6

    def plant(self, lcores: int, repetition: int) -> RoundPlant:
        load = BucketLoad(np.full(BUCKETS, 1 / BUCKETS), np.full(BUCKETS, self.moving_s))
        here = BucketedLcores(load, self.model.most, range(lcores), 4096, 1e-3, repetition)
        return RoundPlant(self.future, here, self.dearer)


def curve(*points: tuple[float, float]) -> Foresight:
    at, pps = zip(*points, strict=True)
    return Foresight(np.array(at), np.array(pps))


def run(
    policy: PolicyName, future: Foresight, dearer: float = 1.0, model: RoundModel = RoundModel()
) -> OperateRun:
    asked = Operate(slo=Slo.model_validate(SLO), policy=(policy,), costs=StepCosts())
    return operate(RoundOperable(future, model, dearer), asked, policy, 1, _nothing)


def _nothing(text: str) -> None:
    """Nobody is told."""


STEADY = (0.2e6, 0.93e6, 0.97e6, 1.9e6, 2.85e6, 4.7e6)
STEP = curve((0, 0.5e6), (4, 0.5e6), (4, 2.5e6), (8, 2.5e6), (8, 0.5e6), (12, 0.5e6))


@pytest.mark.parametrize(
    "pps", [0.95e6, *(pytest.param(pps, marks=pytest.mark.long) for pps in STEADY)]
)
def test_a_steady_load_never_makes_it_go_back_and_forth(pps: float) -> None:
    """Whatever it begins with, also just at what so many lcores carry; noise is in all of it."""
    log = run("headrace", curve((0, pps), (30, pps))).log
    sizes = [one.lcores_after for one in log.decisions if one.lcores_after != one.lcores_before]
    assert len(sizes) <= 1 and (log.operated.kept or 0) > 0.999


def test_of_a_load_without_a_packet_nothing_is_said_to_be_kept() -> None:
    """It was 1: an SLO kept all the time, in no window."""
    operated = run("static", curve((0, 0.0), (1, 0.0))).log.operated
    assert (operated.windows, operated.kept) == (0, None)


def test_it_follows_a_step_up_and_down() -> None:
    """Three lcores for 2.5 Mpps; it is given fewer again a second after the load has gone."""
    whole = run("headrace", STEP)
    log = whole.log
    assert [one.lcores_after for one in log.decisions if one.lcores_after != one.lcores_before] == [
        3, 1,
    ]  # fmt: skip
    up, down = (one for one in log.decisions if one.lcores_after != one.lcores_before)
    assert up.at_s == pytest.approx(4.01) and down.at_s == pytest.approx(9.0, abs=0.1)
    assert log.operated.core_seconds == pytest.approx(4 + 3 * 5 + 3, rel=0.02)
    assert log.operated.broken <= 4  # nobody knew of the step
    assert up.expected_busy == pytest.approx(up.came_busy, rel=0.1)


def test_static_has_what_the_peak_needs_all_the_time() -> None:
    whole = run("static", STEP)
    assert whole.log.operated.core_seconds == pytest.approx(3 * 12)
    assert whole.log.operated.broken == 0 and whole.totals.dropped == 0


def test_an_oracle_needs_no_less_than_what_packets_take_and_breaks_nothing() -> None:
    """By hand: 4 s of one lcore, 4 s of three, 4 s of one. It is there before each step."""
    operated = run("oracle", STEP).log.operated
    assert 20 <= operated.core_seconds <= 20 * 1.02
    assert operated.broken == 0


def test_rsspp_decides_ten_times_a_second_and_has_four_for_the_load_of_two_and_a_half() -> None:
    """2.5 Mpps are 0.1 more than 80 % of three lcores, which is not more than a tenth."""
    log = run("rsspp", STEP).log
    sizes = [one.lcores_after for one in log.decisions if one.lcores_after != one.lcores_before]
    assert sizes[:2] == [2, 3]
    assert all(round(one.at_s * 1000) % 100 == 0 for one in log.decisions)


def test_metron_gives_half_of_an_overloaded_lcores_rules_away() -> None:
    """From one lcore to two, and from these to four, no sooner than 3 s behind."""
    log = run("metron", curve((0, 0.5e6), (4, 0.5e6), (4, 2.5e6), (12, 2.5e6))).log
    first, second = log.decisions[:2]
    assert (first.lcores_after, second.lcores_after) == (2, 4)
    assert first.moved == 32 and second.at_s - first.at_s >= 3


@pytest.mark.parametrize("policy", ["headrace", "oracle", "static", "rsspp", "metron"])
def test_all_packets_are_accounted_for(policy: PolicyName) -> None:
    totals = run(policy, STEP).totals
    assert totals.offered == totals.done + totals.dropped + totals.queued
    assert totals.offered == pytest.approx(4 * 0.5e6 + 4 * 2.5e6 + 4 * 0.5e6, rel=0.01)


def test_it_learns_what_packets_really_cost() -> None:
    """A quarter more than the model says: at 0.9 Mpps one lcore would be enough by the model."""
    log = run("headrace", curve((0, 0.9e6), (10, 0.9e6)), dearer=1.25).log
    assert log.operated.learned == pytest.approx(1.25, rel=0.01)
    assert log.decisions[0].lcores_after == 2 and log.course[-1].broken == 0


@pytest.mark.parametrize(
    ("peak", "alone_s", "why"),
    [(9e6, 1e-6, "all 8 lcores carry 8 at most"), (1e5, 2e-3, "a packet alone takes 2e+03 us")],
)
def test_an_slo_that_nothing_keeps_is_said_to_be_so(peak: float, alone_s: float, why: str) -> None:
    future, model = curve((0, peak), (1, peak)), RoundModel(alone_s=alone_s)
    for policy in ("headrace", "static"):
        text = run(policy, future, model=model).log.operated.unkeepable
        assert text is not None and why in text
    assert run("static", STEP).log.operated.unkeepable is None


def test_the_highest_load_is_that_of_a_second_whatever_looks_take() -> None:
    """A peak among looks of 10 ms counts until they are of a second behind it; looks of 50 ms are
    twenty for the same. For less than a second nobody is to be trusted."""
    for seconds in (0.01, 0.05):
        held, many = HighestHeld(0.01), round(1 / seconds)
        held.expect(seconds, 9.0)
        assert held.pps == math.inf
        for _ in range(many - 1):
            held.expect(seconds, 2.0)
        assert held.pps == 9.0
        held.expect(seconds, 2.0)
        assert held.pps == 2.0
        held.forget()
        held.expect(seconds, 1.0)
        assert held.pps == math.inf


def test_a_late_look_is_several_windows() -> None:
    """After a change that held everybody up for 30 ms: three windows, all of them broken."""
    tally = Tally(Slo.model_validate(SLO), planned_s=1.0, interval_s=0.01)
    lcores = np.zeros(1, np.int64)
    for seconds, p99 in ((0.01, 1e-4), (0.03, 2e-3), (0.0104, 1e-4)):
        seen = PlantTelemetry(
            0.0, seconds, 10, 0, p99, lcores, lcores, np.zeros(1), np.ones(1), lcores,
            np.ones(1, bool), 0, True,
        )  # fmt: skip
        tally.interval(seen)
    assert (tally.windows, tally.broken, tally.broken_p99, tally.broken_loss) == (5, 3, 3, 0)


def test_buckets_are_spread_with_few_moves() -> None:
    """Four buckets of 1 and one of 4, all on one lcore: the large one alone has to go."""
    packets = np.array([1.0, 1, 1, 1, 4])
    now = Assignment((0,), np.zeros(5, np.int64))
    after = even(now, (0, 1), packets)
    assert list(after.owners) == [0, 0, 0, 0, 1] and most_share(after, packets) == 0.5
    gone = even(after, (1,), packets)
    assert set(gone.owners) == {1}
    assert chosen((1, 3), 3, 8) == (0, 1, 3) and chosen((1, 3), 1, 8) == (1,)
