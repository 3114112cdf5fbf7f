# SPDX-License-Identifier: Apache-2.0
"""Routes announced, changed and withdrawn, in rounds: how fast the engine has each change."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headrace.ground.contract import Converging, Point
from headrace.measure.audit import audit
from headrace.record.convergence import CONVERGENCE, RouteChange
from headrace.record.facts import Facts
from headrace.record.rows import Result
from headrace.record.verdict import Finding
from headrace.spec.measure import Convergence


def convergence(
    deployed: Converging, asked: Convergence, say: Callable[[str], None]
) -> Iterator[RouteChange]:
    for number in range(1, asked.rounds + 1):
        for one in deployed.changes(number):
            say(f"  {number}/{asked.rounds} {one.daemon} {one.event}: {one.per_s:.0f} routes/s")
            yield one


def row_of(change: RouteChange, point: Point) -> Result:
    """It has no packets, and so no trial. The ground waits until the engine has all routes, and
    ends the run where it never does."""
    text = f"The engine's table has followed the change of all {change.routes} routes."
    told = Finding(check="routes", ok=True, value=change.routes, limit=change.routes, text=text)
    facts = Facts(sent=change.routes, received=change.routes, lost=0, unit="routes", more=(told,))
    return Result(
        chain=point.chain,
        execution=point.execution,
        workload=point.offers[0].workload,
        direction="forward",
        repetition=change.repetition,
        goal=f"{CONVERGENCE} {change.event}",
        change=change,
        audit=audit(facts),
        duration_s=change.seconds,
        segments=point.segments,
        load_pps=0, throughput_pps=0, throughput_gbps_l1=0, throughput_gbps_l2=0,
        offered_pps=0, sent_pps=0, received_pps=0, loss_ratio=0,
    )  # fmt: skip
