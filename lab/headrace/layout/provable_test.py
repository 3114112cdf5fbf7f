# SPDX-License-Identifier: Apache-2.0
"""Placements against every placement there is, and certificates against a program that shares no
code with what makes them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.errors import HeadraceError
from headrace.layout import check_placement
from headrace.layout.cheapest import WayTables
from headrace.layout.enumerated import enumerate_all, how_many
from headrace.layout.lagrange import relax
from headrace.layout.provable import Placing
from headrace.layout.relaxation import Relaxation
from headrace.spec.placement import (
    FINE,
    Area,
    ChainLoads,
    Door,
    FunctionLoads,
    PlacedServer,
    PlacementAim,
    PlacementAnswer,
    PlacementProblem,
    SharedLimit,
    ThreadMode,
)

AIMS: tuple[PlacementAim, ...] = ("rate", "lcores", "latency", "money", "watts")
# Of 200 that `studies/plan/instances.py` tries: 25 has a tree of branches, 34 is enumerated.
SEEDS = (*range(8), 20, 25, 34)
PATIENCE_S = 30.0  # each ends when it is proved; a machine that is busy takes its time


def instance(seed: int) -> PlacementProblem:
    """One or two chains of one or two functions on two areas of two cores."""
    draw = random.Random(seed)
    aim = AIMS[seed % len(AIMS)]
    chains = tuple(_chain(draw, i, draw.choice((1, 2))) for i in range(draw.choice((1, 2))))
    modes = (ThreadMode(threads=1, speed=10_000), ThreadMode(threads=2, speed=6_000))
    server = PlacedServer(
        name="s", type="s", crossing=1, fixed=100 if aim in ("money", "watts") else 0,
        each={"rate": 0, "latency": 0, "watts": 7}.get(aim, 1),
    )  # fmt: skip
    return PlacementProblem(
        name=f"drawn {seed}",
        aim=aim,
        full=8000,
        lcore_segments=draw.choice((1, 2, 4)),
        weight_ns=1 if aim == "latency" else 0,
        modes=modes[: 2 if len(chains) == 1 else 1],
        servers=(server,),
        areas=tuple(Area(name=f"a{i}", server=0, node=i, cores=2, limit=2) for i in range(2)),
        limits=tuple(SharedLimit(name=name, capacity=2000) for name in ("port", "between", "ram")),
        chains=chains,
    )


def _chain(draw: random.Random, number: int, functions: int) -> ChainLoads:
    door = Door(name="port", server=0, node=number % 2, uses=((0, draw.randint(100, 900)),))
    return ChainLoads(
        name=f"c{number}",
        rate_pps=1e6,
        within_ns=draw.choice((None, 600 * functions + 1500)),
        functions=tuple(_function(draw, i) for i in range(functions)),
        doors=(door,),
        spread=(FINE, int(FINE * draw.choice((1.0, 1.1)))),
        crossing=draw.randint(0, 900),
    )


def _function(draw: random.Random, number: int) -> FunctionLoads:
    work, enter = draw.randint(200, 4000) * FINE, draw.randint(50, 500) * FINE
    return FunctionLoads(
        name=f"f{number}",
        work=(work, work + draw.choice((0, 100 * FINE))),
        enter=(enter, enter * 6 // 5, enter * 2),
        leave=50 * FINE,
        memory=(draw.randint(0, 300),) * 2,
        delay_ns=(draw.randint(100, 400),) * 2,
        enter_ns=(500, 600, 900),
    )


@pytest.fixture(scope="module")
def answers() -> dict[int, PlacementAnswer | None]:
    """None: there is none."""
    return {seed: _answer(seed) for seed in SEEDS}


def _answer(seed: int) -> PlacementAnswer | None:
    try:
        return Placing(instance(seed), seconds=PATIENCE_S).answer()
    except HeadraceError:
        return None


@pytest.mark.long
def test_a_small_problem_has_the_value_of_the_best_of_all_placements(
    answers: dict[int, PlacementAnswer | None],
) -> None:
    for seed, answer in answers.items():
        best, _, value = enumerate_all(instance(seed))
        assert (answer is None) == (best is None), seed
        if answer is not None:
            assert (answer.value, answer.certificate.bound, answer.word) == (
                value, value, "optimal",
            ), seed  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("delays", [(100, 900), (900, 100)])
@pytest.mark.parametrize("aim", ["lcores", "watts"])
def test_a_tie_goes_to_the_faster_place(aim: PlacementAim, delays: tuple[int, int]) -> None:
    """The same work on both areas, each as far from its port; a packet is through one sooner."""
    one = FunctionLoads(
        name="f", work=(900 * FINE,) * 2, enter=(100 * FINE,) * 3, leave=50 * FINE,
        memory=(0, 0), delay_ns=delays, enter_ns=(500, 500, 500),
    )  # fmt: skip
    drawn = instance(AIMS.index(aim))
    chain = drawn.chains[0].model_copy(update={"functions": (one,), "within_ns": None})
    problem = drawn.model_copy(update={"chains": (chain,)})
    answer = Placing(problem, seconds=PATIENCE_S).answer()
    assert answer.word == "optimal"
    (way,) = answer.placement.ways
    assert {s.area for s in way.segments} == {delays.index(100)}


@pytest.mark.long
def test_its_certificate_is_accepted_by_the_checker(
    answers: dict[int, PlacementAnswer | None],
) -> None:
    kinds = set()
    for answer in answers.values():
        if answer is not None:
            check_placement.check(json.loads(answer.model_dump_json()))
            kinds.add(answer.certificate.enumerated is None)
    assert kinds == {True, False}


@pytest.mark.long
def test_a_certificate_altered_by_one_is_rejected(
    answers: dict[int, PlacementAnswer | None],
) -> None:
    """Each of its numbers by one, up and down. Sealed anew, a price whose goods are taken up
    exactly may be altered, as what it proves is the same to the last digit: others may not."""
    tried = 0
    for answer in answers.values():
        if answer is None:
            continue
        given = json.loads(answer.model_dump_json())
        for place in _numbers(given["certificate"], ()):
            for by in (-1, 1):
                altered = json.loads(answer.model_dump_json())
                _add(altered["certificate"], place, by)
                with pytest.raises(check_placement.Rejected, match="something is altered"):
                    check_placement.check(altered)
                altered["certificate"]["seal"] = check_placement.seal(altered["certificate"])
                if place[-1] not in ("bound", "surplus", "placements", "mode", "digest"):
                    continue
                if place == ("bound",) and by < 0:
                    continue  # a weaker statement, which is as true
                tried += 1
                with pytest.raises((check_placement.Rejected, KeyError, IndexError)):
                    check_placement.check(altered)
        altered = json.loads(answer.model_dump_json())
        altered["value"] += 1
        with pytest.raises(check_placement.Rejected, match="is worth"):
            check_placement.check(altered)
    assert tried > len(SEEDS)


def _numbers(part: Any, at: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    items = part.items() if isinstance(part, dict) else enumerate(part)
    for key, value in items:
        if isinstance(value, dict | list):
            yield from _numbers(value, (*at, key))
        elif isinstance(value, int) or key in ("digest", "seal"):
            yield (*at, key)


def _add(part: Any, place: tuple[Any, ...], by: int) -> None:
    for key in place[:-1]:
        part = part[key]
    old = part[place[-1]]
    part[place[-1]] = f"{int(old, 16) + by:064x}" if isinstance(old, str) else old + by


def test_a_price_altered_is_another_proof_or_none() -> None:
    """Its surplus is stated to the last digit."""
    answer = Placing(by_hand(), seconds=PATIENCE_S).answer()
    given = json.loads(answer.model_dump_json())
    [bound] = given["certificate"]["modes"]
    assert bound["areas"][0] > 0
    bound["areas"][0] += 1
    with pytest.raises(check_placement.Rejected, match="something is altered"):
        check_placement.check(given)
    given["certificate"]["seal"] = check_placement.seal(given["certificate"])
    with pytest.raises(check_placement.Rejected, match="the surplus is"):
        check_placement.check(given)


def by_hand() -> PlacementProblem:
    """Two chains of a function of 3000, entered for 100 and left for 50, on two lcores."""
    function = FunctionLoads(
        name="f", work=(3000 * FINE,), enter=(100 * FINE,) * 3, leave=50 * FINE, memory=(0,),
        delay_ns=(1,), enter_ns=(1, 1, 1),
    )  # fmt: skip
    chains = tuple(
        ChainLoads(
            name=name, rate_pps=1e6, within_ns=None, spread=(FINE, FINE), functions=(function,),
            doors=(Door(name="port", server=0, node=0, uses=((0, 700),)),),
        )
        for name in ("c", "d")
    )  # fmt: skip
    return PlacementProblem(
        name="by hand", aim="rate", full=8000, lcore_segments=4, chains=chains,
        modes=(ThreadMode(threads=1, speed=10_000),),
        servers=(PlacedServer(name="s", type="s"),),
        areas=(Area(name="a", server=0, node=0, cores=2),),
        limits=(SharedLimit(name="port", capacity=10_000),),
    )  # fmt: skip


def test_what_a_placement_is_worth_by_hand() -> None:
    """6300 in all, on two lcores: 3150 each. The port has 1400 of 10,000."""
    answer = Placing(by_hand(), seconds=PATIENCE_S).answer()
    assert (answer.value, answer.certificate.bound) == (3150, 3150)
    assert how_many(by_hand()) == 9
    busy = by_hand().model_copy(update={"limits": (SharedLimit(name="port", capacity=2000),)})
    assert Placing(busy, seconds=PATIENCE_S).answer().value == 7000  # 1400 of 2000


def test_what_ports_alone_prove_by_hand() -> None:
    """Three chains of 700 by two ports of 1000: one has 1400, and by shares 1050 would do."""
    doors = tuple(Door(name=f"port {i}", server=0, node=0, uses=((i, 700),)) for i in (0, 1))
    chain = by_hand().chains[0].model_copy(update={"doors": doors})
    problem = by_hand().model_copy(update={
        "chains": tuple(chain.model_copy(update={"name": name}) for name in "cde"),
        "limits": tuple(SharedLimit(name=f"port {i}", capacity=1000) for i in (0, 1)),
    })  # fmt: skip
    answer = Placing(problem, seconds=PATIENCE_S).answer()
    assert (answer.value, answer.word, answer.certificate.ports) == (14_000, "optimal", 8)
    given = json.loads(answer.model_dump_json())
    check_placement.check(given)
    for ports, words in ((9, "there are 8 choices"), (None, "only 10500 is proven")):
        given["certificate"]["ports"] = ports
        given["certificate"]["seal"] = check_placement.seal(given["certificate"])
        with pytest.raises(check_placement.Rejected, match=words):
            check_placement.check(given)


def test_a_bound_above_what_a_placement_has_is_no_certificate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such a bound was lowered to the value, and called a proof."""
    best = Placing(instance(0), 2.0).answer()
    assert best.certificate.enumerated is None
    monkeypatch.setattr(Placing, "_bound", lambda *_: best.value + 1)
    with pytest.raises(HeadraceError, match=f"{best.value + 1} was proved.* has {best.value}"):
        Placing(instance(0), 2.0).answer()


def test_prices_that_had_no_time_have_no_ways_without_a_part() -> None:
    """The ways that the last round brings are in no solution where the time is over by then."""
    problem = instance(25)
    relaxation = Relaxation(WayTables(problem, problem.modes[0]), problem.full)
    relaxed = relax(relaxation, 0.0)
    assert len(relaxed.columns) < len(relax(relaxation, float("inf")).columns)
    assert relaxed.parts and len(relaxed.columns) == len(relaxed.parts)
