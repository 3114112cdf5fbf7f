# SPDX-License-Identifier: Apache-2.0
"""What is said of chains that have no placement, by hand."""

from __future__ import annotations

import pytest

from headrace.errors import HeadraceError
from headrace.layout.provable import Placing
from headrace.layout.provable_test import by_hand
from headrace.layout.unmet import why_unmet
from headrace.spec.placement import SharedLimit


def test_a_chain_that_is_too_much_by_itself_is_named() -> None:
    """Each takes 700 of the port; 3150 of an lcore, or half of that on each of two; 2 ns."""
    problem = by_hand().model_copy(update={"aim": "lcores"})
    assert why_unmet(problem) is None
    narrow = problem.model_copy(update={"limits": (SharedLimit(name="port 0", capacity=700),)})
    assert why_unmet(narrow) == "chain c takes 100% of port 0, of which 80% may be used"
    with pytest.raises(HeadraceError, match="no placement keeps all goals: chain c takes 100%"):
        Placing(narrow, seconds=30).answer()
    full = problem.model_copy(update={"full": 1500})
    assert why_unmet(full) == (
        "chain c has a function that is too much for all lcores of one last-level cache, 15% busy"
    )
    assert why_unmet(problem.model_copy(update={"full": 1600})) is None
    late = problem.chains[1].model_copy(update={"within_ns": 1})
    chains = problem.chains[0], late
    told = why_unmet(problem.model_copy(update={"chains": chains}))
    assert told == "chain d takes 0.002 us at least, and its goal is 0.001 us"
