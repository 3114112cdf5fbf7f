# SPDX-License-Identifier: Apache-2.0
"""What a reader must know of a row beside its verdict."""

from __future__ import annotations

from headrace.analyse.summary import Summary
from headrace.analyse.units import ns, percent

_P99_PAUSES = 0.01  # of the time: more than the packets that a p99 leaves out
_TOLD = 2  # findings; all are on the page and in JSON


def tail_of_pauses(s: Summary) -> str | None:
    """A packet in a hundred that waits for an lcore to come back makes the p99 the machine's."""
    counters, latency = s.typical.counters, s.latency_ns.get("p99")
    if counters is None or latency is None:
        return None
    most, cpu = max(((w.away, w.cpu) for w in counters.workers), default=(0.0, 0))
    if most <= _P99_PAUSES:
        return None
    return (
        f"{s.key.execution}, {s.key.goal_text}: lcore {cpu} was away for {percent(most, 2)} of the "
        f"time: the p99 of {ns(latency.median)} is of packets that waited for it, and not the "
        "chain's."
    )


def doubt(s: Summary) -> str:
    """What the audit found of it, in short."""
    told = dict.fromkeys(f.text for r in s.results for f in r.audit.failed)
    more = f" (and {len(told) - _TOLD} more)" if len(told) > _TOLD else ""
    return f"{s.key.execution}, {s.key.goal_text}: {s.verdict}: {' '.join([*told][:_TOLD])}{more}"
