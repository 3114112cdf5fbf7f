# SPDX-License-Identifier: Apache-2.0
"""What the page of a plan says of where its costs are from."""

from __future__ import annotations

import pytest

from headrace.analyse.units import NOT_KNOWN
from headrace.report.html import render
from headrace.report.plan import _over_chosen, document
from headrace.spec.plan import ChainPlan, LayoutPlan, OverChosen, SegmentPlan


def page(
    line_cycles: float | None, mixed: bool = False, segments: tuple[SegmentPlan, ...] = ()
) -> str:
    best = LayoutPlan(role="best", segments=segments, predicted_pps=9e6, cycles_per_lcore={0: 280})
    plan = ChainPlan(
        chain="c", workload="64B", lcores=(0, 1), generator=0, measure=1, tsc_hz=2.6e9, how="all",
        bound_pps=1e7, rate_pps=None, functions=(), source=(0, 0), sink=(0, 0), layouts=(best,),
        line_cycles=line_cycles, mixed=mixed,
    )  # fmt: skip
    return " ".join(render(document([plan])).split())


@pytest.mark.parametrize("line", [78.0, 344.0])
def test_costs_say_how_far_apart_the_lcores_were(line: float) -> None:
    assert f"between which a line takes {line:.0f} TSC cycles" in page(line)


def test_what_is_not_known_or_of_two_states_has_no_one_distance() -> None:
    assert "a line takes" not in page(None)
    assert "what no other run tells is of another state" in page(None, mixed=True)


@pytest.mark.parametrize(("replicas", "told"), [(1, False), (2, False), (3, True), (4, True)])
def test_more_replicas_than_costs_are_of_are_told(replicas: int, told: bool) -> None:
    few = SegmentPlan(functions=("acl",), lcores=(0,))
    many = SegmentPlan(functions=("nat",), lcores=tuple(range(replicas)))
    assert ("each priced as one of two" in page(None, segments=(few, many))) == told


def test_the_choice_is_compared_with_its_intervals() -> None:
    """The chosen layout itself has none, and what never ran beside it is not known."""
    ahead = OverChosen(over=1.021, least=0.98, most=1.06)
    one = LayoutPlan(role="rtc", segments=(), predicted_pps=9e6, cycles_per_lcore={0: 280})
    assert _over_chosen(one) == NOT_KNOWN
    assert _over_chosen(one.model_copy(update={"over_chosen": ahead})) == "1.021 (0.980–1.060)"
    assert _over_chosen(one.model_copy(update={"role": "best", "over_chosen": ahead})) == ""


def test_functions_side_by_side_are_no_replicas() -> None:
    beside = SegmentPlan(functions=("a", "b", "c"), lcores=(0,), parallel=("a", "b"), beside=(1, 2))
    assert "priced as one of two" not in page(None, segments=(beside,))
