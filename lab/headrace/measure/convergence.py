# SPDX-License-Identifier: Apache-2.0
"""Routes announced, changed and withdrawn, in rounds: how fast the engine has each change."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headrace.ground.contract import Converging
from headrace.record.convergence import RouteChange
from headrace.spec.measure import Convergence


def convergence(
    deployed: Converging, asked: Convergence, say: Callable[[str], None]
) -> Iterator[RouteChange]:
    for number in range(1, asked.rounds + 1):
        for one in deployed.changes(number):
            say(f"  {number}/{asked.rounds} {one.daemon} {one.event}: {one.per_s:.0f} routes/s")
            yield one
