# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from headrace.analyse import units


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (9.999, "10.0"), (0.00123456, "0.00123"), (123456, "123\u202f456"), (1.5, "1.50"),
     (-2.345, "-2.35"), (99.96, "100")],
)  # fmt: skip
def test_significant(value: float, text: str) -> None:
    assert units.significant(value) == text


def test_units_are_never_parted_from_their_number() -> None:
    assert units.pps(14_880_952) == "14.9\u202fMpps"
    assert units.ns(1234) == "1.23\u202fµs"
    assert units.percent(0.0101) == "1.01\u202f%"
    assert units.pps(None) == units.ns(None) == units.percent(None) == units.NOT_KNOWN


def test_no_loss_is_told_from_little() -> None:
    assert units.loss(0.0) == "0"
    assert units.loss(1e-9) == "0.00000010\u202f%"


@pytest.mark.parametrize(
    ("ratio", "digits", "text"),
    [(0.9964, 2, "99.6"), (0.99996, 3, "99.996"), (1.0, 2, "100"), (1 - 1e-15, 3, "100"),
     (1.0004, 3, "100.04"), (1.00000005, 3, "100"), (0.004, 1, "0.4"), (0.0, 2, "0")],
)  # fmt: skip
def test_what_is_not_all_is_never_100_percent(ratio: float, digits: int, text: str) -> None:
    assert units.percent(ratio, digits) == f"{text}\u202f%"
