# SPDX-License-Identifier: Apache-2.0
"""Costs out of a stored profile: at its own setting, between its points, and outside of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from headrace.errors import HeadraceError
from headrace.profile import stored
from headrace.profile.chain_costs import kept_of
from headrace.profile.stored import cost
from headrace.spec.base import MedianRange
from headrace.spec.profile import (
    PacketCost,
    PlaceCost,
    Places,
    Profile,
    ProfilePoint,
    ReplicaCost,
    Settings,
    Sweep,
)
from headrace.spec.study import Experiment

BASE = Settings(state=1000, rules=100, frame_bytes=64, burst=32, skew=0.0)


def spread(value: float) -> MedianRange:
    return MedianRange(median=value, min=value, max=value)


def point(sweep: Sweep, cycles: float, **changed: int) -> ProfilePoint:
    none = spread(0.0)
    costs = PacketCost(nf=spread(cycles), rx=none, tx=none, loop=none, throughput_pps=spread(1e6))
    return ProfilePoint(sweep=sweep, settings=BASE.model_copy(update=changed), cost=costs)


def place(nf: float, rx: float) -> PlaceCost:
    return PlaceCost(
        nf=nf,
        rx=rx,
        tx=5,
        loop=3,
        source=30,
        source_tx=5,
        sink=20,
        poll=100,
        idle=20,
        passed=1,
    )


def profile() -> Profile:
    states = [point("state", c, state=n) for n, c in ((100, 48), (10_000, 60), (1_000_000, 160))]
    frames = [point("frame", c, frame_bytes=n) for n, c in ((64, 50), (1518, 70))]
    return Profile(
        nf="monitor",
        params={},
        created_at="2026-01-01T00:00:00Z",
        headrace="0",
        host="h",
        cpu=None,
        tsc_hz=1e9,
        hugepages=True,
        repetitions=1,
        points=(*states, *frames),
        fit=None,
        places=Places(settings=BASE, near=place(40, 5), far=place(54, 30), spread=place(46, 20)),
        corun=(),
        pmu=None,
        pmu_absent="none",
    )


def at(**changed: int) -> Settings:
    return BASE.model_copy(update=changed)


def of(wanted: Settings) -> float:
    measured = profile()
    assert measured.places is not None
    return cost("monitor", measured, measured.places, wanted).work.apart


def test_at_its_own_setting_it_is_what_was_measured() -> None:
    measured = profile()
    assert measured.places is not None
    priced = cost("monitor", measured, measured.places, BASE)
    assert (priced.work.same, priced.work.apart, priced.work.replicas) == (40, 54, (39, 53))
    assert priced.replicated == pytest.approx(46 - 14 / 2)
    assert (priced.rx.same, priced.rx.apart, priced.poll) == (5, 30, 100)


def test_differences_are_added() -> None:
    assert of(at(state=10_000)) == pytest.approx(54 + 60 - 54)  # 1000 lies half way in logarithms
    assert of(at(state=1_000_000)) == pytest.approx(54 + 160 - 54)
    assert of(at(frame_bytes=1518)) == pytest.approx(54 + 20)
    assert of(at(state=100_000)) == pytest.approx(54 + 110 - 54)


def test_outside_of_what_was_measured_nothing_is_predicted() -> None:
    with pytest.raises(HeadraceError) as refused:
        of(at(state=5_000_000))
    for word in ("cannot predict", "1e+06 over state", "asked for 5e+06"):
        assert word in str(refused.value)


def test_rules_do_not_matter_to_what_has_none() -> None:
    assert of(at(rules=5000)) == 54


def test_replicas_cost_what_two_at_once_did() -> None:
    """Not what one does with half of the state: they share caches, and get shorter bursts."""
    measured = [(1_000, 46.0), (10_000, 70.0), (100_000, 140.0)]
    old = profile()
    assert old.places is not None
    replicas = tuple(ReplicaCost(settings=at(state=n), nf=spread(c)) for n, c in measured)
    new = old.model_copy(update={"replicas": replicas})
    base = cost("nf", old, old.places, at()).replicated
    replicated = cost("nf", new, old.places, at(state=100_000)).replicated
    assert base is not None and replicated == pytest.approx(base + 140 - 46)
    without = cost("nf", old, old.places, at(state=100_000)).replicated
    assert without is not None and replicated is not None and without < replicated
    with pytest.raises(HeadraceError, match="replicas up to 100000 entries, asked for 1000000"):
        cost("nf", new, old.places, at(state=1_000_000))


def test_costs_of_a_machine_that_stood_still_are_refused() -> None:
    """0.3 was taken for 0.5, and 1.4 for 1.25, without a word."""

    def kept(value: float) -> float:
        one = place(50, 20).model_copy(update={"kept": value})
        return kept_of([(one, one, one)])

    assert [kept(value) for value in (0.5, 0.97, 1.25)] == [0.5, 0.97, 1.25]
    for value in (0.3, 1.4):
        with pytest.raises(HeadraceError, match=f"carried {value:.2f} times .* allowed: 0.5 to"):
            kept(value)


@pytest.mark.parametrize(
    "lines, told",
    [
        ((78.0, 81.0, 79.0), (79.0, False)),
        ((78.0, 344.0, 80.0), (None, True)),  # the hypervisor moved lcores between the profiles
        ((None, 344.0, None), (344.0, False)),  # two are of before this was kept
        ((None, None, None), (None, False)),
    ],
)
def test_profiles_say_where_lcores_were(
    monkeypatch: pytest.MonkeyPatch,
    lines: tuple[float | None, ...],
    told: tuple[float | None, bool],
) -> None:
    def known(nf: str) -> Profile:
        one = profile()
        assert one.places is not None
        places = one.places.model_copy(update={"line_cycles": lines[int(nf)]})
        return one.model_copy(update={"places": places})

    monkeypatch.setattr(stored, "_profile", known)
    nodes = [SimpleNamespace(nf=str(i)) for i in range(len(lines))]
    assert stored.line_cycles(cast(Experiment, SimpleNamespace(nodes=nodes))) == told
