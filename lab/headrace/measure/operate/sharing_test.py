# SPDX-License-Identifier: Apache-2.0
"""Several chains on the same lcores, whose costs are round numbers: each lcore carries a million
packets/s of any of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from headrace.ground.lined_elastic import GRID, LcoreFigures
from headrace.ground.operable import Foresight
from headrace.ground.simulated.elastic import SimulatedOperable
from headrace.ground.simulated.elastic_model import PricedElastic
from headrace.layout.buckets import StagedWork
from headrace.measure.operate.loop import OperateRun, operate
from headrace.measure.operate.sharing import share
from headrace.spec.operate import Operate, PolicyName, StepCosts

CARRIES = 1e6
COSTS = StepCosts(start=1e-3, bucket=2e-6, flow=0.0)
Loads = Mapping[str, list[tuple[float, float]]]


def asked(loads: Loads, weights: Mapping[str, float], backpressure: bool = True) -> Operate:
    chains = {name: {"load": load, "weight": weights[name]} for name, load in loads.items()}
    return Operate.model_validate(
        {"slo": "p99=1ms", "chains": chains, "backpressure": backpressure, "costs": COSTS,
         "buckets": 64}
    )  # fmt: skip


def operable(
    of: Operate, load: list[tuple[float, float]], lcores: int, stages: tuple[float, ...] = (1.0,)
) -> SimulatedOperable:
    parts, delays = np.array(GRID), np.full(len(GRID), 1e-6)
    one = LcoreFigures(CARRIES, 1e9, (0.0, 1000.0), (parts, delays, delays))
    model = PricedElastic(one, lcores, of.buckets, 6400, of.costs, stages)
    at, pps = (np.array(column) for column in zip(*load, strict=True))
    future = Foresight(at, pps)
    work = StagedWork(stages, 1024, of.slo.p99 / 2 if of.backpressure else None)
    return SimulatedOperable(model, future, future, of, 64.0, 4096, (), work=work)


def shared(
    loads: Loads, weights: Mapping[str, float], lcores: int, policy: PolicyName = "headrace",
    backpressure: bool = True, stages: tuple[float, ...] = (1.0,),
) -> dict[str, OperateRun]:  # fmt: skip
    of = asked(loads, weights, backpressure)
    chains = {
        name: operable(of, load, lcores, stages).apart(i)
        for i, (name, load) in enumerate(loads.items())
    }
    runs = share(chains, of, policy, 1, lambda text: None)
    for run in runs.values():
        totals = run.totals
        assert totals.offered == totals.done + totals.dropped + totals.queued
    return runs


@pytest.mark.parametrize("policy", ["headrace", "oracle", "static"])
def test_chains_that_are_overloaded_have_lcores_by_their_weights(policy: PolicyName) -> None:
    """2 to 1 on three lcores: two and one. What each does not get through is held back."""
    steady = [(0.0, 6e6), (2.0, 6e6)]
    runs = shared({"a": steady, "b": steady}, {"a": 2, "b": 1}, 3, policy)
    for name, lcores in (("a", 2), ("b", 1)):
        run = runs[name]
        assert run.log.operated.mean_lcores == pytest.approx(lcores, rel=0.01)
        assert run.totals.done / 2 == pytest.approx(lcores * CARRIES, rel=0.01)
        assert run.totals.dropped == 0
        assert run.totals.held_back == pytest.approx(2 * (6e6 - lcores * CARRIES), rel=0.01)
        assert run.log.operated.broken_p99 == 0
        assert run.log.operated.shared is not None
        assert run.log.operated.shared.mean_asked == pytest.approx(3)


def test_chains_of_one_weight_share_the_third_lcore() -> None:
    steady = [(0.0, 6e6), (2.0, 6e6)]
    for run in shared({"a": steady, "b": steady}, {"a": 1, "b": 1}, 3).values():
        assert run.log.operated.mean_lcores == pytest.approx(1.5, rel=0.01)
        assert run.totals.done / 2 == pytest.approx(1.5e6, rel=0.01)


def test_a_chain_that_needs_little_leaves_the_rest_whatever_its_weight() -> None:
    """0.2 Mpps need a part of an lcore: with a weight of 9 to 1 the other has all else."""
    runs = shared(
        {"a": [(0.0, 0.2e6), (3.0, 0.2e6)], "b": [(0.0, 6e6), (3.0, 6e6)]}, {"a": 9, "b": 1}, 2
    )
    assert runs["a"].log.operated.kept == 1
    assert runs["a"].log.operated.mean_lcores < 0.5
    lcores = sum(run.log.operated.mean_lcores for run in runs.values())
    assert lcores == pytest.approx(2, rel=0.01)


def test_another_part_of_the_same_lcore_is_a_step_though_nothing_moves() -> None:
    """Two chains on one lcore, from 0.05 to 3 Mpps each: from a tenth to two thirds and a third."""
    jump = [(0.0, 0.05e6), (1.0, 0.05e6), (1.001, 3e6), (2.0, 3e6)]
    for name, run in shared({"a": jump, "b": jump}, {"a": 2, "b": 1}, 1).items():
        step = run.log.decisions[-1]
        assert step.at_s == pytest.approx(1.01) and step.moved == 0
        share = {"a": "0.667", "b": "0.333"}[name]
        assert step.why == f"it needs 1 lcores, and {share} of 1 are its share"
        assert run.log.course[-1].lcores == pytest.approx(float(share), abs=1e-3)


# One has its peak while the other has none.
APART: Loads = {
    "a": [(0.0, 0.6e6), (2.0, 0.6e6), (2.1, 2.4e6), (4.0, 2.4e6), (4.1, 0.6e6), (10.0, 0.6e6)],
    "b": [(0.0, 0.6e6), (6.0, 0.6e6), (6.1, 2.4e6), (8.0, 2.4e6), (8.1, 0.6e6), (10.0, 0.6e6)],
}


@pytest.mark.parametrize(("policy", "most"), [("oracle", 1.02), ("headrace", 1.25)])
def test_with_peaks_apart_they_need_no_more_than_each_alone(
    policy: PolicyName, most: float
) -> None:
    """Four lcores, of which each needs three at its peak and one beside it. The sum of what they
    have is near that of an oracle's with each of them alone."""
    alone = 0.0
    for load in APART.values():
        of = Operate.model_validate({"slo": "p99=1ms", "costs": COSTS, "buckets": 64})
        alone += operate(
            operable(of, load, 4), of, "oracle", 1, lambda text: None
        ).log.operated.core_seconds
    runs = shared(APART, {"a": 1, "b": 1}, 4, policy)
    together = sum(run.log.operated.core_seconds for run in runs.values())
    assert alone * 0.98 <= together <= alone * most
    assert all(run.log.operated.broken <= 2 for run in runs.values())
    # At a step that nobody foresees, some wait for an lcore that begins.
    assert all(run.totals.held_back <= 1e-3 * run.totals.done for run in runs.values())


def test_what_is_set_once_for_both_peaks_does_not_fit() -> None:
    """Three lcores for each peak are six, of which there are four: with two each both are late."""
    runs = shared(APART, {"a": 1, "b": 1}, 4, "static")
    assert all(run.log.operated.mean_lcores == pytest.approx(2) for run in runs.values())
    assert all(run.log.operated.broken > 150 for run in runs.values())


def test_backpressure_saves_what_would_be_wasted() -> None:
    """Two stages of a quarter and three quarters of the cost, 6 Mpps for each chain on three
    lcores. With backpressure they do the 3 Mpps that three lcores carry. Without it each stage has
    the half of the time: the second one does two thirds of that, and a third of all is wasted."""
    steady = [(0.0, 6e6), (2.0, 6e6)]
    loads, weights, stages = {"a": steady, "b": steady}, {"a": 2, "b": 1}, (0.25, 0.75)
    held = shared(loads, weights, 3, stages=stages)
    assert sum(run.totals.done for run in held.values()) / 2 == pytest.approx(3e6, rel=0.01)
    assert all(run.totals.wasted_s == 0 for run in held.values())
    lost = shared(loads, weights, 3, stages=stages, backpressure=False)
    done = sum(run.totals.done for run in lost.values())
    assert done / 2 == pytest.approx(2e6, rel=0.02)
    wasted = sum(run.totals.wasted_s for run in lost.values())
    assert wasted == pytest.approx(2.0, rel=0.02)  # of six core-seconds
    assert all(run.totals.held_back == 0 and run.totals.dropped > 0 for run in lost.values())


def test_no_lcore_is_anybodys_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """At any moment the parts of those that are on an lcore add up to one at most."""
    from headrace.measure.operate import sharing

    most = []
    hand_over = sharing.SharingChains._hand_over

    def watched(self: sharing.SharingChains) -> None:
        hand_over(self)
        parts = [np.where(one.plant.on, one.plant.parts, 0) for one in self.chains]
        most.append(float(np.sum(parts, axis=0).max()))

    monkeypatch.setattr(sharing.SharingChains, "_hand_over", watched)
    up_and_down = {
        "a": [(0.0, 0.3e6), (1.0, 3e6), (2.0, 0.3e6), (3.0, 3e6)],
        "b": [(0.0, 2e6), (1.5, 0.2e6), (2.5, 4e6), (3.0, 4e6)],
        "c": [(0.0, 0.5e6), (2.0, 2e6), (2.2, 0.5e6), (3.0, 0.5e6)],
    }
    runs = shared(up_and_down, {"a": 1, "b": 2, "c": 3}, 3)
    assert max(most) == pytest.approx(1)
    assert all(len(run.log.decisions) > 3 for run in runs.values())
    again = shared(up_and_down, {"a": 1, "b": 2, "c": 3}, 3)
    assert [run.log for run in again.values()] == [run.log for run in runs.values()]


def test_two_that_wait_for_each_others_only_lcore_change_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Four chains with the halves of two lcores. Then the first is to have 0.6, so that the second
    fits only beside the fourth, where the third is, whose 0.4 fit only where the second was."""
    from headrace.measure.operate import sharing

    begun, after, asks = [0.5, 0.5, 0.5, 0.5], [0.6, 0.5, 0.4, 0.5], []

    def granted(asked: object, weights: object, lcores: object) -> list[float]:
        asks.append(asked)
        return begun if len(asks) < 50 else after

    monkeypatch.setattr(sharing, "granted", granted)
    steady = [(0.0, 0.2e6), (1.0, 0.2e6)]
    runs = shared({name: steady for name in "wxyv"}, {name: 1 for name in "wxyv"}, 2)
    assert [runs[name].log.course[-1].lcores for name in "wxyv"] == pytest.approx(after)
    for run in runs.values():
        assert all(one.at_s < 0.6 for one in run.log.decisions)
        assert run.totals.dropped == 0 and run.totals.held_back == 0
