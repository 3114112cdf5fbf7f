# SPDX-License-Identifier: Apache-2.0
"""Ratios of known pairs, and what a drift that both share does to them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from headrace.analyse.lcores_moved import moved
from headrace.model.paired import Rounds, decided, paired, quietest_of, turns_of
from headrace.model.usual_trials import lines_between
from headrace.record.bundle import Bundle
from headrace.record.estimates import Capacity, Interval, PartCapacity
from headrace.record.rows import Trial


def capacity(pps: float, half: float = 0.0, clock_hz: float = 2.0) -> Capacity:
    interval = Interval(value=pps, low=pps - half, high=pps + half)
    part = PartCapacity(
        name="all", role="chain", cpus=(1,), cycles_per_packet=interval, pps=interval, tsc_hz=1,
        clock_hz=clock_hz, quiet_share=1, slices=100,
    )  # fmt: skip
    return Capacity(parts=(part,), narrowest="all", pps=interval, trials=1)


def in_turn(**rates: list[float]) -> Rounds:
    """All in one state of the machine."""
    return Rounds(rates, rates)


def test_a_drift_that_both_share_is_no_difference_between_them() -> None:
    """Capacities wander by 30 %, the ratio is 1.10 in each turn but for half a per cent."""
    levels = [10e6, 13e6, 9e6, 11e6, 12e6]
    noise = [0.995, 1.005, 1.0, 1.003, 0.997]
    turns = Rounds({"a": [x * 1.1 * n for x, n in zip(levels, noise, strict=True)], "b": levels})
    ratios = paired("a", "b", turns, {})
    assert ratios.ratio.value == pytest.approx(1.1, rel=1e-3)
    assert ratios.ratio.half == pytest.approx(1.1 * 2.776 * 0.00412 / 5**0.5, rel=0.05)
    assert (ratios.verdict, ratios.pairs) == ("faster", 5)
    assert paired("b", "a", turns, {}).verdict == "slower"


def test_of_equals_the_interval_contains_1_in_nineteen_of_twenty() -> None:
    draw, ties, unknown = random.Random(7), 0, 0
    for _ in range(400):
        turns = Rounds({name: [1e7 * draw.gauss(1, 0.03) for _ in range(5)] for name in "ab"})
        verdict = paired("a", "b", turns, {}).verdict
        ties += verdict == "tie"
        unknown += verdict == "unknown"
    assert 0.92 * 400 <= ties + unknown <= 0.98 * 400
    assert ties > 10 * unknown  # their interval is ±5 %, seldom more than 10


def test_going_on_until_it_is_decided_finds_no_difference_that_is_none() -> None:
    """Two that are equal, whose starts differ by 4 %, after each turn from the fifth to the tenth:
    one is named best in 8 of a hundred (one look would do so in 5); as soon as an interval leaves
    out 1, it would be in 11."""
    draw, named, spared, looks = random.Random(11), 0, 0, 0
    for _ in range(1000):
        both = [[draw.gauss(1, 0.04) for _ in range(10)] for _ in range(2)]
        several = [in_turn(a=both[0][:n], b=both[1][:n]) for n in range(5, 11)]
        last = next((turns for turns in several if decided(turns, 5)), several[-1])
        named += paired("a", "b", last, {}).verdict in ("faster", "slower")
        spared += len(last.rates["a"]) < 10
        looks += any(paired("a", "b", t, {}).verdict in ("faster", "slower") for t in several)
    assert 0.07 * 1000 <= named <= 0.09 * 1000 < 0.11 * 1000 <= looks
    assert spared > 200


def test_what_differs_is_decided_at_once_and_what_is_wide_is_not() -> None:
    base = [1.0, 1.02, 0.98, 1.01, 0.99]
    assert decided(in_turn(a=[1.2 * x for x in base], b=base[::-1], c=base), 5)
    wide = [0.8, 1.3, 1.0, 0.7, 1.2]
    assert not decided(in_turn(a=wide, b=base, c=[x / 2 for x in base]), 5)
    assert decided(in_turn(a=base, b=[x * 1.001 for x in base]), 5)
    # Three in the mean, 2.3 to 4: precise enough for what is behind by so much.
    behind = [x * y / 3 for x, y in zip(base, wide, strict=True)]
    assert decided(in_turn(a=base, b=behind), 4)
    assert not decided(in_turn(a=[1.0], b=[1.0]), 2)
    assert decided(in_turn(a=[], b=[]), 5) and decided(in_turn(a=[1.0], b=[2.0]), 1)


def test_where_one_state_does_not_tell_turns_of_all_states_do() -> None:
    """10 % faster in each state, and more exactly so in the second; what tells is not mixed."""
    near, far = ([1.1, 1.3, 1.0], [1.1, 1.1, 1.09, 1.11, 1.1, 1.12])
    rates = {"a": near, "b": [1.0] * 3}
    both = Rounds(rates, {"a": near + far, "b": [1.0] * 9})
    assert paired("a", "b", Rounds(rates), {}).verdict == "unknown"
    judged = paired("a", "b", both, {})
    assert (judged.verdict, judged.pairs, judged.mixed) == ("faster", 9, True)
    assert decided(both, 9) and not decided(Rounds(rates, rates), 3)
    assert not decided(both, 3)  # 1.11 ± 0.06: not precise for who has looked before
    told = Rounds({"a": far, "b": [1.0] * 6}, both.every)
    assert not paired("a", "b", told, {}).mixed


def test_an_interval_that_leaves_room_for_much_shows_no_tie() -> None:
    alone = {"a": capacity(10.4e6, 5e6), "b": capacity(10e6, 5e6)}
    assert paired("a", "b", Rounds({}), alone).verdict == "unknown"
    for half, verdict in ((0.3e6, "tie"), (0.8e6, "unknown")):
        level = {"a": capacity(10e6, half), "b": capacity(10e6, half)}
        assert paired("a", "b", Rounds({}), level).verdict == verdict


def test_without_turns_it_goes_by_the_intervals_themselves() -> None:
    alone = {"a": capacity(11e6, 0.3e6), "b": capacity(10e6, 0.4e6)}
    ratios = paired("a", "b", Rounds({}), alone)
    assert (ratios.pairs, ratios.verdict) == (1, "faster")
    assert ratios.ratio.half == pytest.approx(1.1 * ((0.3 / 11) ** 2 + 0.04**2) ** 0.5)
    slower = {**alone, "b": capacity(5e6, 0.2e6, clock_hz=1.0)}  # at half the clock
    assert paired("a", "b", Rounds({}), slower) == ratios
    assert paired("a", "b", Rounds({"a": [], "b": [1e6]}), alone) == ratios


def test_turns_are_told_by_the_order_of_trials(bundle_path: Path) -> None:
    """The second start of `a` had to go on for longer, as too little of it was left alone; its
    third is the one beside the second of `b` that tells anything."""
    any_trial = Bundle(bundle_path).trials()[0]
    some = [("a", 1e6), ("b", 2e6), ("a", None), ("a", 3e6), ("b", None), ("a", 5e6), ("b", 6e6)]
    trials = [
        any_trial.model_copy(
            update={
                "trial": n, "execution": name, "phase": "capacity",
                "capacity": None if pps is None else capacity(pps),
            }
        )
        for n, (name, pps) in enumerate(some, 1)
    ]  # fmt: skip
    one = trials[0]
    turns = turns_of(trials, one.chain, one.workload)
    assert turns.rates == turns.every == {"a": [0.5e6, 2.5e6], "b": [1e6, 3e6]}
    assert turns_of(trials, "another", one.workload) == Rounds({})


def test_a_turn_of_another_state_of_the_machine_is_in_no_pair(bundle_path: Path) -> None:
    """Lines of the other lcore took 60 cycles, and from the second start of `a` on 340, in most of
    the starts: those before are left out. The search, longer than all of them, ran at 60 again."""
    any_trial = Bundle(bundle_path).trials()[0]
    some = [
        ("a", 9e6, 60.0), ("b", 8e6, 60.5), ("b", 2e6, 61.0), ("a", 3e6, 340.0), ("b", 4e6, 341.0),
        ("a", 3.2e6, 342.0), ("b", 4.1e6, 339.0),
    ]  # fmt: skip
    some += [("a", 9e6, 60.0)] * 9
    trials = [
        any_trial.model_copy(
            update={
                "trial": n, "execution": name, "phase": "capacity" if n < 8 else "search",
                "capacity": capacity(pps), "line_cycles": lines,
            }
        )
        for n, (name, pps, lines) in enumerate(some, 1)
    ]  # fmt: skip
    one = trials[0]
    turns = turns_of(trials, one.chain, one.workload)
    assert turns.rates == {"a": [1.5e6, 1.6e6], "b": [2e6, 2.05e6]}
    # The second of `b` has no other beside it in its state.
    assert turns.every == {"a": [4.5e6, 1.5e6, 1.6e6], "b": [4e6, 2e6, 2.05e6]}
    assert lines_between(trials) == 340.5
    same = [t.model_copy(update={"line_cycles": 60.0 + t.trial / 10}) for t in trials]
    assert moved(same) is None
    assert "took 340 TSC cycles in 4 of 16 trials, 60.0 in 12 trials; it changed 2 times" in (
        moved(trials) or ""
    )


def test_where_cycles_go_is_told_by_the_trial_that_was_left_alone(bundle_path: Path) -> None:
    """It is the chain's lcores that count: what others take of the tester's does not."""
    first = next(t for t in Bundle(bundle_path).trials() if t.execution == "pipeline")
    assert first.counters is not None

    def taken(trial: int, phase: str, shares: dict[int, float]) -> Trial:
        assert first.counters is not None
        workers = tuple(
            w.model_copy(update={"pauses_cycles": int(w.ref_cycles * shares.get(w.cpu, 0.0))})
            for w in first.counters.workers
        )
        counters = first.counters.model_copy(update={"workers": workers})
        return first.model_copy(update={"trial": trial, "phase": phase, "counters": counters})

    trials = [
        taken(1, "search", {}),
        taken(2, "capacity", {2: 0.1}),
        taken(3, "capacity", {0: 0.5, 3: 0.02}),
        taken(4, "capacity", {4: 0.03}),
    ]
    quietest = quietest_of(trials, first.chain, first.workload)
    assert {name: one.trial for name, one in quietest.items()} == {"pipeline": 3}
    assert quietest_of(trials, "another", first.workload) == {}
