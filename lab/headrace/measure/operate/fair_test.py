# SPDX-License-Identifier: Apache-2.0
"""Lcores divided among chains, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.measure.operate.fair import AskedLcores, granted, laid_out, max_min


@pytest.mark.parametrize(
    ("asks", "weights", "most", "expected"),
    [
        ([9, 9], [2, 1], 3, [2, 1]),
        # 6 for weights of 4: 1.5 each. The first wants 1 and leaves 5 for 3: 5/3 for each weight.
        ([1, 9, 9], [1, 1, 2], 6, [1, 5 / 3, 10 / 3]),
        # 10/3 each; then 8/2 each; then 5 are left.
        ([2, 3, 9], [1, 1, 1], 10, [2, 3, 5]),
        # Who is heavy and wants little leaves the rest: 4 x 0.9 is more than its 1.
        ([1, 9], [9, 1], 4, [1, 3]),
        ([1, 1], [1, 7], 4, [1, 1]),
        ([9, 0], [1, 1], 3, [3, 0]),
    ],
)
def test_what_is_fair_by_hand(
    asks: list[float], weights: list[float], most: float, expected: list[float]
) -> None:
    assert max_min(asks, weights, most) == pytest.approx(expected)


def test_whole_lcores_are_given_while_there_are_enough() -> None:
    """1.2 and 0.3 lcores are whole ones on three, and parts on two."""
    asks = [AskedLcores(2, 1.2), AskedLcores(1, 0.3)]
    assert granted(asks, [1, 1], 3) == [2, 1]
    assert granted(asks, [1, 1], 2) == pytest.approx([1.2, 0.3])
    assert granted(asks, [1, 1], 1) == pytest.approx([0.7, 0.3])


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 9)), min_size=1, max_size=5),
    st.integers(1, 4),
)
def test_grants_are_fair_and_fit_on_the_lcores(chains: list[tuple[int, int]], lcores: int) -> None:
    """Nobody has more than it asks for, all is given while anybody wants more, and who wants more
    has as much for its weight as anybody."""
    asks, weights = [ask / 10 for ask, _ in chains], [weight for _, weight in chains]
    grants = max_min(asks, weights, lcores)
    assert sum(grants) == pytest.approx(min(lcores, sum(asks)))
    for ask, grant, weight in zip(asks, grants, weights, strict=True):
        assert grant <= ask + 1e-9
        if grant < ask - 1e-9:
            assert all(grant / weight >= g / w - 1e-9 for g, w in zip(grants, weights, strict=True))
    parts = laid_out(grants, np.zeros((len(chains), lcores)))
    assert parts.sum(axis=1) == pytest.approx(np.array(grants), abs=1e-5)
    assert parts.sum(axis=0).max() <= 1 + 1e-9
    # The same grants change nothing: chains stay where they are.
    assert laid_out(grants, parts) == pytest.approx(parts)


def test_a_chain_stays_where_it_is() -> None:
    """The second chain gets an lcore more: the third one, which nobody had."""
    now = laid_out([1, 1], np.zeros((2, 3)))
    assert now.tolist() == [[1, 0, 0], [0, 1, 0]]
    assert laid_out([1, 2], now).tolist() == [[1, 0, 0], [0, 1, 1]]
    assert laid_out([1.5, 1.5], laid_out([1, 2], now)).tolist() == [[1, 0, 0.5], [0, 1, 0.5]]
    # A part of one, too: the second lcore has as much room.
    parts = np.array([[0, 0, 0.5], [1, 0, 0]])
    assert laid_out([0.5, 1], parts).tolist() == parts.tolist()
