# SPDX-License-Identifier: Apache-2.0
"""Loads that are a part of what a search finds: how they are written, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from headrace.spec.invalid import sentence
from headrace.spec.measure import LoadShare, Measure


def measure(*loads: Any, search: Any = ("ndr",)) -> Measure:
    return Measure.model_validate({"search": list(search), "loads": list(loads)})


def test_parts_of_what_a_search_finds_are_told_from_rates() -> None:
    parsed = measure("1.5M", "50 % of ndr", 2000, "12.5% of ndr of side by side")
    assert parsed.rates == (1.5e6, 2000.0)
    assert parsed.shares == (
        LoadShare(share=0.5, goal="ndr"),
        LoadShare(share=0.125, goal="ndr", execution="side by side"),
    )
    assert [one.text for one in parsed.shares] == ["50% of ndr", "12.5% of ndr of side by side"]
    assert measure(*(one.text for one in parsed.shares)).shares == parsed.shares
    again = Measure.model_validate(parsed.model_dump(mode="json"))
    assert again == parsed  # a bundle's spec has them written out
    assert Measure.model_validate({"search": "pdr", "loads": "10% of pdr"}).shares[0].share == 0.1


@pytest.mark.parametrize(
    ("load", "search", "words"),
    [
        ("50% of pdr", ["ndr"], "50% of pdr: pdr is no goal of `search`; allowed: ndr"),
        ("50% of ndr", [], "allowed: a goal that `search` has"),
        ("half of ndr", ["ndr"], "`50% of ndr of EXECUTION`"),
        ("0% of ndr", ["ndr"], "greater than 0"),
        ("201% of ndr", ["ndr"], "less than or equal to 200%"),
    ],
)
def test_a_part_of_nothing(load: str, search: list[str], words: str) -> None:
    with pytest.raises(ValidationError) as refused:
        measure(load, search=search)
    assert words in sentence(refused.value)


def test_chaos_is_at_a_load_that_is_known() -> None:
    with pytest.raises(ValidationError, match="no goal of `search`"):
        Measure.model_validate({"chaos": {}, "loads": ["50% of ndr"]})


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"loads": ["10G"]}, "loads.0.*at most 1G: packets/s, which a load is, not bit/s"),
        ({"loads": [0]}, "loads.0.*above 0"),
        ({"loads": 0}, "loads.0.*above 0"),
        ({"max_load": "1.1G"}, "max_load.*at most 1G"),
        ({"search": []}, "search: is empty, and nothing else is asked"),
        ({"loads": [], "trial": 1}, "loads: is empty, and nothing else is asked"),
    ],
)
def test_what_no_link_carries_and_what_asks_nothing(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=f"(?s){words}"):
        Measure.model_validate(asked)


def test_an_empty_list_beside_what_is_asked() -> None:
    """A group leaves out what all have in common."""
    assert Measure.model_validate({"search": [], "loads": ["1G"]}).rates == (1e9,)
    assert Measure.model_validate({"search": [], "loads": [], "max": True}).search == ()


@pytest.mark.parametrize(
    ("loads", "text"),
    [((1000, "1k"), "1k"), (("50% of ndr", "50 % of ndr"), "50% of ndr")],
)
def test_a_load_is_given_once(loads: tuple[Any, ...], text: str) -> None:
    """Two rows of one name could not be told apart."""
    with pytest.raises(ValidationError, match=f"loads: {text} is given twice"):
        measure(*loads)
    assert len(measure(1000, 1001, "50% of ndr", "51% of ndr").loads) == 4
