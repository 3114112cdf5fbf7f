# SPDX-License-Identifier: Apache-2.0
"""The repetitions of a measurement as one: medians, as in the table; packets are summed."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from headrace.analyse.capacity import CycleCost, Part, carried_pps, parts_of
from headrace.analyse.units import percent
from headrace.record.estimates import Interval, PartCapacity
from headrace.record.rows import Measurement
from headrace.record.segments import Limit
from headrace.record.verdict import Audit, worst


def together(repetitions: Sequence[Measurement]) -> Measurement:
    """Failed checks keep the name of their repetition; the verdict is the worst of them."""
    if len(repetitions) == 1:
        return repetitions[0]
    findings = tuple(
        f.model_copy(update={"text": f"Repetition {one.repetition}: {f.text}"})
        for one in repetitions
        for f in one.audit.findings
        if not f.ok
    )
    base = next((r for r in repetitions if r.counters is not None), repetitions[0])
    medians = {
        name: statistics.median(getattr(r, name) for r in repetitions)
        for name in ("load_pps", "throughput_pps", "offered_pps", "sent_pps")
    }
    sums = {
        name: sum(getattr(r, name) for r in repetitions)
        for name in ("duration_s", "intended", "sent", "received", "lost", "policy_dropped")
    }
    # Of a record without packets, as a published one's, the ratio is all that is known.
    lost = statistics.median(r.loss_ratio for r in repetitions)
    if sums["sent"]:
        lost = sums["lost"] / sums["sent"]
    verdict = worst(r.audit.verdict for r in repetitions)
    audit = Audit(verdict=verdict, findings=findings)
    used = _limits([r.limits for r in repetitions])
    return base.model_copy(
        update={**medians, **sums, "loss_ratio": lost, "audit": audit, "limits": used}
    )


def _limits(each: Sequence[Sequence[Limit]]) -> tuple[Limit, ...]:
    """Has for each limit the median of what was used of it, and all that was lost for it."""
    same: dict[tuple[str, str], list[Limit]] = {}
    for one in (one for limits in each for one in limits):
        same.setdefault((one.kind, one.place), []).append(one)
    return tuple(
        ones[0].model_copy(
            update={
                "used": statistics.median(one.used for one in ones),
                "crossings": statistics.median(one.crossings for one in ones),
                "dropped": sum(one.dropped for one in ones),
            }
        )
        for ones in same.values()
    )


def joined(repetitions: Sequence[Measurement]) -> tuple[Part, ...]:
    """Each part over all repetitions in which its lcore ran. What it carried in any of them is
    proof that it can."""
    each = [(r, parts_of(r)) for r in repetitions]
    if len(each) == 1:
        return each[0][1]
    proof = max(map(carried_pps, repetitions))
    return tuple(
        _join([p for _, parts in each for p in parts if p.name == part.name], proof)
        for part in each[0][1]
    )


def left_out(repetitions: Sequence[Measurement]) -> list[str]:
    """Repetitions that say nothing of a part of which others do."""
    held = [(r, p) for r in repetitions for p in parts_of(r) if p.held_up and p.sampled is None]
    lost = {p.name for p in joined(repetitions) if p.held_up}
    return [
        f"Repetition {r.repetition} is not in the cycles and the capacity of {p.name}: its lcore "
        f"was held up for {percent(p.held_up, 2)} of that trial."
        for r, p in held
        if p.name not in lost
    ]


def _join(parts: Sequence[Part], proof_pps: float) -> Part:
    ran = [p for p in parts if p.held_up is None or p.sampled is not None]
    rings, drops = _sum(p.rings for p in parts), _sum(p.drops for p in parts)
    if not ran:
        longest = max(parts, key=lambda p: p.held_up or 0.0)
        return longest.model_copy(update={"rings": rings, "drops": drops})
    costs = _costs([p.costs for p in ran if p.costs])
    sampled = [p.sampled for p in ran if p.sampled is not None]
    capacity = median_known(p.capacity_pps for p in ran)
    if len(sampled) == len(ran):
        middle = _middle(sampled)
        again = {"sampled": middle, "capacity_pps": middle.pps.value}
    else:  # the interval of those that have one is not of the others
        proven = None if capacity is None else max(capacity, proof_pps)
        again = {"sampled": None, "capacity_pps": proven}
    return ran[0].model_copy(
        update={
            "costs": costs,
            "cycles_per_packet": sum(c.cycles for c in costs) or None,
            **again,
            "burst": median_known(p.burst for p in ran),
            "full_burst_cycles": median_known(p.full_burst_cycles for p in ran),
            "paused": median_known(p.paused for p in ran),
            "utilisation": median_known(p.utilisation for p in ran),
            "share_of_busiest": median_known(p.share_of_busiest for p in ran),
            "share_of_lcore": median_known(p.share_of_lcore for p in ran),
            "rings": rings,
            "drops": drops,
        }
    )


def _costs(each: Sequence[tuple[CycleCost, ...]]) -> tuple[CycleCost, ...]:
    names = dict.fromkeys((c.name, c.kind) for costs in each for c in costs)
    return tuple(
        CycleCost(
            name=name,
            kind=kind,
            cycles=statistics.median(
                sum(c.cycles for c in costs if (c.name, c.kind) == (name, kind)) for costs in each
            ),
        )
        for name, kind in names
    )


def _middle(sampled: Sequence[PartCapacity]) -> PartCapacity:
    """The one in the middle; of an even number what lies between the two, over both intervals."""
    ordered = sorted(sampled, key=lambda one: one.pps.value)
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    if low is high:
        return low
    return low.model_copy(
        update={
            "cycles_per_packet": _between(low.cycles_per_packet, high.cycles_per_packet),
            "pps": _between(low.pps, high.pps),
            "clock_hz": max(low.clock_hz, high.clock_hz),
            "quiet_share": (low.quiet_share + high.quiet_share) / 2,
            "slices": low.slices + high.slices,
            "at_limit": low.at_limit and high.at_limit,
        }
    )


def _between(a: Interval, b: Interval) -> Interval:
    return Interval(value=(a.value + b.value) / 2, low=min(a.low, b.low), high=max(a.high, b.high))


def median_known(values: Iterable[float | None]) -> float | None:
    """The median of those that are known."""
    known = [v for v in values if v is not None]
    return statistics.median(known) if known else None


def _sum(each: Iterable[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in each:
        for name, n in one.items():
            total[name] = total.get(name, 0) + n
    return total
