# SPDX-License-Identifier: Apache-2.0
"""Lcores that go from chain to chain, by hand and whatever the grants are."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from headrace.ground.operable import Numbers
from headrace.measure.operate.fair import laid_out, max_min
from headrace.measure.operate.handing import handed_over

_SLOWEST = 3  # intervals until a chain's packets have left an lcore


@dataclass
class WalkingChains:
    """Chains of which nothing is known but where they are. Each goes to what it has of its target,
    and has left the other lcores after up to so many intervals."""

    have: Numbers
    rng: random.Random
    target: Numbers = field(init=False)
    on: NDArray[np.bool_] = field(init=False)
    _left: Numbers = field(init=False)  # intervals, until it is gone

    def __post_init__(self) -> None:
        self.target, self.on = self.have.copy(), self.have > 0
        self._left = np.zeros_like(self.have)

    def grant(self, grants: Sequence[float]) -> None:
        self.target = laid_out(grants, self.target)

    def interval(self) -> None:
        self.have = handed_over(self.have, self.target, self.on)
        assert self.have.sum(axis=0).max() <= 1 + 1e-6
        for one in range(len(self.have)):
            usable = (self.have[one] > 0) & (self.target[one] > 0)
            if not usable.any():
                continue  # it stays
            leaves = self.on[one] & ~usable
            for lcore in np.flatnonzero(leaves & (self._left[one] == 0)):
                self._left[one, lcore] = self.rng.randint(1, _SLOWEST)
            self._left[one] = np.where(leaves, self._left[one] - 1, 0)
            self.on[one] = usable | (leaves & (self._left[one] > 0))
        assert ((self.have > 0) & self.on).any(axis=1).all()  # nobody is nowhere

    @property
    def there(self) -> bool:
        return np.allclose(self.have, self.target) and bool((self.on == (self.target > 0)).all())


def two_that_swap() -> WalkingChains:
    """Halves of two lcores: W and X, then Y and V. W grows to 0.6, so that X fits only where Y is;
    X and V fill that, so that Y, which shrinks to 0.4, fits only where X was."""
    have = np.array([[0.5, 0], [0.5, 0], [0, 0.5], [0, 0.5]])
    chains = WalkingChains(have, random.Random(1))
    chains.grant([0.6, 0.5, 0.4, 0.5])
    assert chains.target.tolist() == [[0.6, 0], [0, 0.5], [0.4, 0], [0, 0.5]]
    return chains


def test_two_that_wait_for_each_others_only_lcore_go_beside_each_other() -> None:
    """X goes to a half of what Y has there; then it leaves, and Y has all that it is to have."""
    chains = two_that_swap()
    chains.interval()
    assert chains.have.tolist() == [[0.5, 0], [0.5, 0.25], [0, 0.25], [0, 0.5]]
    for _ in range(3 * _SLOWEST):
        chains.interval()
    assert chains.there


def test_who_waits_for_one_that_leaves_only_waits() -> None:
    """Nobody gives up a half: B has a part of where it goes, so A's lcore will be free."""
    have = np.array([[1.0, 0, 0], [0, 1.0, 0]])
    target = np.array([[0, 1.0, 0], [0, 0, 1.0]])
    after = handed_over(have, target, have > 0)
    assert after.tolist() == [[1, 0, 0], [0, 1, 1]]
    left = handed_over(after, target, np.array([[True, False, False], [False, False, True]]))
    assert left.tolist() == [[1, 1, 0], [0, 0, 1]]


def test_three_in_a_ring() -> None:
    """Each is to go where the next one is."""
    chains = WalkingChains(np.eye(3), random.Random(1))
    chains.target = np.roll(np.eye(3), 1, axis=1)
    for _ in range(4 * _SLOWEST):
        chains.interval()
    assert chains.there


@given(
    st.integers(1, 4),
    st.lists(
        st.tuples(st.lists(st.integers(1, 12), min_size=6, max_size=6), st.integers(0, 4)),
        min_size=2, max_size=8,
    ),
    st.lists(st.sampled_from([1, 2, 3, 9]), min_size=2, max_size=6),
    st.integers(0, 1 << 16),
)  # fmt: skip
def test_whatever_is_granted_all_are_where_they_are_to_be_in_the_end(
    lcores: int, schedule: list[tuple[list[int], int]], weights: list[float], seed: int
) -> None:
    """Asks in tenths of lcores change before the chains are where they are to be, too."""
    grants = [
        max_min([one / 10 for one in asks[: len(weights)]], weights, lcores) for asks, _ in schedule
    ]
    chains = WalkingChains(laid_out(grants[0], np.zeros((len(weights), lcores))),
                           random.Random(seed))  # fmt: skip
    for each, (_, intervals) in zip(grants, schedule, strict=True):
        chains.grant(each)
        for _ in range(intervals):
            chains.interval()
    for _ in range(2 * len(weights) * (_SLOWEST + 1)):
        chains.interval()
    assert chains.there


def test_at_random_some_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the property is about does come: without the way out some never are where they are to
    be."""
    from headrace.measure.operate import handing

    nobody = np.zeros(4, bool)
    monkeypatch.setattr(handing, "_knotted", lambda have, target: nobody)
    chains = two_that_swap()
    for _ in range(100):
        chains.interval()
    assert not chains.there
