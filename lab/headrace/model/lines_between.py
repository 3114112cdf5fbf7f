# SPDX-License-Identifier: Apache-2.0
"""In which state of the machine a start ran, by what a line of another lcore cost before it.

What lies between two lcores does not drift: it is one thing or another, depending on which cores a
hypervisor has put them on. Figures of two such states are not of one machine.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

# Apart by more than this is another state. Of one state they lay within 5 % in 20 starts, and two
# were 60 and 340 cycles; cores of one socket and of two differ by half.
APART = 1.25


def same_state(one: float | None, other: float | None) -> bool:
    """Also where one of them is not known: nothing says that they differ."""
    if not one or not other:
        return True
    return max(one, other) <= APART * min(one, other)


def steady(before: Sequence[float | None]) -> list[bool]:
    """Which starts ran in the state that most of them ran in and stayed there, by what was
    measured before each. The state before the next one is that after it; after the last nobody
    looked. Of states as common as each other the one with the cheaper lines counts."""
    stayed = [same_state(one, after) for one, after in itertools.pairwise([*before, None])]
    known = sorted(one for one, whole in zip(before, stayed, strict=True) if one and whole)
    if not known:
        return stayed
    usual = max(known, key=lambda one: sum(same_state(one, other) for other in known))
    return [whole and same_state(one, usual) for one, whole in zip(before, stayed, strict=True)]
