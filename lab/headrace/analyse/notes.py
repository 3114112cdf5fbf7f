# SPDX-License-Identifier: Apache-2.0
"""What a reader must know of a row beside its verdict."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.analyse.summary import Summary
from headrace.analyse.units import loss, ns, percent

_P99_PAUSES = 0.01  # of the time: more than the packets that a p99 leaves out
_ROWS = 3  # that are named
_TOLD = 2  # findings; all are on the page and in JSON


def tails_of_pauses(summaries: Sequence[Summary]) -> str | None:
    """A packet in a hundred that waits for an lcore to come back makes the p99 the machine's. Of
    figures that are doubted for another reason nobody believes the tail."""
    tails = [text for s in summaries if s.trusted and (text := _tail(s)) is not None]
    if not tails:
        return None
    more = f"; and {len(tails) - _ROWS} more" if len(tails) > _ROWS else ""
    return (
        "The p99 is of packets that waited for an lcore which the machine had taken away, and not "
        f"the chain's: {'; '.join(tails[:_ROWS])}{more}."
    )


def _tail(s: Summary) -> str | None:
    counters, latency = s.typical.counters, s.latency_ns.get("p99")
    if counters is None or latency is None:
        return None
    most, cpu = max(((w.away, w.cpu) for w in counters.workers), default=(0.0, 0))
    if most <= _P99_PAUSES:
        return None
    name = f"{s.key.execution}, {s.key.goal_text}"
    return f"{name} ({ns(latency.median)}; lcore {cpu} away for {percent(most, 2)} of the time)"


def not_made(s: Summary) -> str | None:
    """What a loss is that the goal allows, beside a goal that no load met."""
    if not s.unmet_by_generator:
        return None
    return (
        f"{s.key.execution}, {s.key.goal_text}: no load met it, as the source did not make "
        f"{percent(s.unsent)} of the packets that were due; the loss of "
        f"{loss(s.loss_ratio.median)} is of those that were made."
    )


def doubt(s: Summary) -> str:
    """What the audit found of it, in short."""
    told = dict.fromkeys(f.text for r in s.results for f in r.audit.failed)
    more = f" (and {len(told) - _TOLD} more)" if len(told) > _TOLD else ""
    return f"{s.key.execution}, {s.key.goal_text}: {s.verdict}: {' '.join([*told][:_TOLD])}{more}"
