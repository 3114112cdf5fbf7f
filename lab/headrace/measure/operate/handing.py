# SPDX-License-Identifier: Apache-2.0
"""How lcores go from chains that have them to chains that are to have them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.ground.operable import Numbers

_FULL = 1e-9  # an lcore's parts add up to one, but for the numbers' last digits
Chains = NDArray[np.bool_]


def handed_over(have: Numbers, target: Numbers, on: NDArray[np.bool_]) -> Numbers:
    """Which part of which lcore each chain has from now on: a row for each. What a chain is to lose
    of an lcore it loses at once, and all of one when its packets have left (`on`); only then others
    get it.

    A chain goes to an lcore of its target as soon as it has a part of one, and leaves all others.
    So whoever has such a part, or waits for nobody but those who leave, ends with its target. Those
    who are left wait for each other (`_knotted`), each for an lcore that another one of them stays
    on, as it has nowhere to go. They would for ever. So the first of them is let onto its lcore
    beside those who stay there, who give up a half of what they have. With that it leaves: each
    time one fewer waits, and nobody is without a part of an lcore meanwhile.
    """
    leaving = (target == 0) & on
    have = np.where(leaving, have, np.minimum(have, target))
    for one in range(len(have)):
        more, free = target[one] - have[one], 1 - have.sum(axis=0)
        have[one] += np.where((more > 0) & (more <= free + _FULL), more, 0.0)
    knotted = _knotted(have, target)
    if knotted.any():
        first = int(knotted.argmax())
        lcore = int(target[first].argmax())
        have[knotted & (target[:, lcore] == 0), lcore] /= 2
        have[first, lcore] = min(target[first, lcore], 1 - have[:, lcore].sum())
    return have


def _knotted(have: Numbers, target: Numbers) -> Chains:
    """Chains that wait for each other: each lcore of their targets is one that another of them has
    and is to leave."""
    there = np.any((have > 0) & (target > 0), axis=1)
    knotted: Chains = np.logical_and(np.any(target > 0, axis=1), np.logical_not(there))
    while True:
        held = ((have > 0) & (target == 0) & knotted[:, None]).any(axis=0)
        go_on = knotted & ((target > 0) & ~held).any(axis=1)
        if not go_on.any():
            return knotted
        knotted &= ~go_on
