# SPDX-License-Identifier: Apache-2.0
"""Where a chain is narrowest, and why: sentences with the counters that they rest on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from headrace.analyse import limits
from headrace.analyse.capacity import LOSING, PAUSED, Part, carried_pps, parts_of, unreached
from headrace.analyse.repetitions import joined, left_out, together
from headrace.analyse.units import count, percent, plural, pps, significant
from headrace.record.frozen import Record
from headrace.record.rows import Measurement
from headrace.record.segments import Limit
from headrace.record.text import all_of

BUSY = 0.95  # a polling lcore above this share has no cycles left for a burst
FULL_BURST = 0.75  # of the most that a poll takes
HALF = 0.5  # of an lcore's time: below it the bursts are small
CLOSE = 0.10  # parts nearer to each other than this cannot be told apart
SAME = 0.01  # costs nearer to each other than this are one
ALIKE = 8  # so many parts of the same functions are drawn as one
_NUMBERS = re.compile(r"(?<=vnf)\d+(\.\d+)*|[-.:]\d+")


class Pipe(Record):
    parts: tuple[Part, ...]
    throughput_pps: float
    carried_pps: float  # with what was dropped by policy, where that is no loss
    narrowest: str | None
    marked: tuple[str, ...] = ()  # the narrowest; of the tester also what shares its lcores
    limit: Limit | None = None  # that holds the chain back instead of a part's cycles
    headline: str
    reasons: tuple[str, ...] = ()

    def part(self, name: str) -> Part:
        return next(p for p in self.parts if p.name == name)

    def drawn(self) -> list[Part]:
        """The parts, but of many alike one after the other only the narrowest, as all of them."""
        shown: list[Part] = []
        for _, run in groupby(self.parts, lambda p: (p.role, p.name in self.marked, _kinds(p))):
            alike = list(run)
            folds = len(alike) >= ALIKE and alike[0].role == "chain"
            shown += [_folded(alike)] if folds else alike
        return shown


def _kinds(part: Part) -> tuple[str, ...]:
    """Its functions without the numbers that tell VNFs' own apart."""
    return tuple(_NUMBERS.sub("", name) for name in part.nfs)


def _folded(alike: Sequence[Part]) -> Part:
    narrowest = min(alike, key=lambda p: p.capacity_pps or float("inf"))
    busy = [p.utilisation for p in alike if p.utilisation is not None]
    return narrowest.model_copy(
        update={
            "name": f"{alike[0].name} … {alike[-1].name} ({len(alike)})",
            "cpus": tuple(sorted({cpu for p in alike for cpu in p.cpus})),
            "utilisation": max(busy, default=None),
        }
    )


def pipe(at: Measurement, above: Measurement | None = None) -> Pipe:
    """`at`: the measurement to explain. `above`: a trial at a load it did not carry, if any."""
    return pipe_of([at], [above] if above is not None else [])


def pipe_of(repetitions: Sequence[Measurement], above: Sequence[Measurement]) -> Pipe:
    """Take all repetitions of a measurement, and their trials at loads that were too high."""
    at = together(repetitions)
    parts = _levelled(joined(repetitions))
    limit = None if unreached(at) else limits.limit_of(at, above)
    if limit is not None:
        name, headline = None, limits.headline(limit)
        reasons = _of_limit(limit, at, repetitions, above, parts)
    else:
        name, headline, reasons = _narrowest(at, above, parts, _loads(repetitions, at))
    reasons += left_out(repetitions)
    return Pipe(
        parts=parts,
        throughput_pps=at.throughput_pps,
        carried_pps=carried_pps(at),
        narrowest=name,
        marked=_marked(name, parts) if limit is None else (limit.place,),
        limit=None if limit is None else limits.in_result(limit, at),
        headline=headline,
        reasons=tuple(reasons),
    )


def _loads(repetitions: Sequence[Measurement], at: Measurement) -> str:
    """What was carried, as the table has it."""
    if len(repetitions) == 1:
        return pps(carried_pps(at))
    most = max(map(carried_pps, repetitions))
    return (
        f"{pps(carried_pps(at))} (median of {len(repetitions)} repetitions; the most {pps(most)})"
    )


def _narrowest(
    at: Measurement, above: Sequence[Measurement], parts: Sequence[Part], loads: str
) -> tuple[str | None, str, list[str]]:
    chain = [p for p in parts if p.role == "chain"]
    if unreached(at):
        name, headline, reasons = _generator_bound(at, parts, loads)
        return name, headline, [*reasons, *_of_policy(at), *_of_holding(parts)]
    if any(p.held_up and p.sampled is None for p in chain):
        return None, *_disturbed(at, parts)
    if all(p.capacity_pps is None for p in chain):
        return None, "No counters of this measurement say where the chain is narrowest.", []
    # Of equals the chain's part: it is what is asked about.
    measured = [p for p in parts if p.capacity_pps is not None and not _has_spare(p, at)]
    by_width = sorted(measured, key=lambda p: (p.capacity_pps or 0.0, p.role != "chain"))
    # Where a loss says less than undisturbed slices do: it may be the machine's.
    lossy = None if all(p.sampled for p in chain) else _lossy(above, chain)
    part = _costliest(lossy or by_width[0], parts)
    headline = _headline(part, _sharing(part.name, parts), carried_pps(at))
    reasons = [
        *_circumstances(at, parts),
        *_of_cycles(part, at),
        *_paused(part),
        *_of_lcores(part),
        *_of_loss(part, above),
        *_of_drops(part, at),
        *of_sharing(part, by_width),
        *_of_rest(part, by_width),
        *_of_estimate(part),
    ]
    return part.name, headline, reasons


def _has_spare(part: Part, at: Measurement) -> bool:
    """Whether what the chain lost shows that this part of the tester had cycles left: a generator
    that made more than came out, a sink without a full ring in front of it."""
    if part.role == "chain" or at.predicted is not None or at.loss_ratio < LOSING:
        return False
    return part.role == "generator" or not any(part.rings.values())


def _of_limit(
    limit: Limit,
    at: Measurement,
    repetitions: Sequence[Measurement],
    above: Sequence[Measurement],
    parts: Sequence[Part],
) -> list[str]:
    return [*_circumstances(at, parts), *limits.reasons(limit, at, repetitions, above, parts)]


def _circumstances(at: Measurement, parts: Sequence[Part]) -> list[str]:
    """What is to be known of any measurement before its cycles."""
    return [
        *(f"Audit: {f.text}" for f in at.audit.findings if not f.ok),
        *_of_holding(parts),
        *_of_policy(at),
    ]


def _generator_bound(
    at: Measurement, parts: Sequence[Part], loads: str
) -> tuple[str | None, str, list[str]]:
    """The chain's limit was not reached, so nothing is said about where it lies."""
    reasons = [f.text for f in at.audit.findings if not f.ok]
    generator = next((p for p in parts if p.role == "generator"), None)
    chain = [p.capacity_pps for p in parts if p.role == "chain" and p.capacity_pps]
    if generator is not None and generator.capacity_pps:
        if (generator.utilisation or 0.0) < BUSY:
            reasons.append(
                f"The generator's lcore was busy for only {percent(generator.utilisation)} of the "
                "time: it was held up, by other work on the machine or by the host, and not out "
                "of cycles."
            )
        elif generator.capacity_pps <= min(chain, default=float("inf")):
            return (
                generator.name,
                f"The generator is narrower than the chain: {loads} is a lower "
                "bound of the load that the chain carries.",
                reasons,
            )
    return (
        None,
        f"Not reached: a load of {loads} is the most that was tried or that the "
        "generator could make, and the chain carried it; it is only a lower bound.",
        reasons,
    )


def _disturbed(at: Measurement, parts: Sequence[Part]) -> tuple[str, list[str]]:
    names = ", ".join(p.name for p in parts if p.role == "chain" and p.held_up)
    return (
        f"Not named: the measurement was disturbed. {names} did not run for a part of the trial, "
        "and what a packet costs cannot be told from that waiting.",
        _circumstances(at, parts),
    )


def _of_holding(parts: Sequence[Part]) -> list[str]:
    return [
        f"{p.name} (lcore {', '.join(map(str, p.cpus))}) was held up for {percent(p.held_up, 2)} "
        "of the trial, by other work on the machine or by its host: its cycles and its capacity "
        "are left out."
        for p in parts
        if p.held_up and p.sampled is None
    ]


def _levelled(parts: Sequence[Part]) -> tuple[Part, ...]:
    """What shares its lcores has one capacity. What was lost in front of the first of them, the
    later ones never saw, and would seem wider for it."""
    levelled = []
    for part in parts:
        known = [p.capacity_pps for p in _sharing(part.name, parts) if p.capacity_pps]
        level = part.role == "chain" and part.capacity_pps is not None and known
        levelled.append(part.model_copy(update={"capacity_pps": min(known)}) if level else part)
    return tuple(levelled)


def _costliest(part: Part, parts: Sequence[Part]) -> Part:
    """Parts on one lcore of the chain have the same capacity: this is the one that takes most
    of its time: the one that is worth widening."""
    if part.role != "chain":
        return part
    return max(_sharing(part.name, parts), key=lambda p: p.share_of_lcore or 0.0)


def _marked(name: str | None, parts: Sequence[Part]) -> tuple[str, ...]:
    return tuple(p.name for p in _sharing(name, parts) if p.name == name or p.role != "chain")


def _sharing(name: str | None, parts: Sequence[Part]) -> list[Part]:
    """The part of that name, with those of its side (the chain, the tester) on its very lcores."""
    one = next((p for p in parts if p.name == name), None)
    if one is None:
        return []
    inside = one.role == "chain"
    return [p for p in parts if p.cpus == one.cpus and (p.role == "chain") == inside]


def _carries(part: Part, carried: float) -> str:
    """Says it with the interval, in which all lies that was measured: starts differ. A trial may
    carry more than the estimate, by chance or as its machine was another (model/lines_between.py);
    the estimate is not called the most then."""
    if part.sampled is None:
        return f"can carry {pps(part.capacity_pps)}"
    low, high = part.sampled.pps.low, part.sampled.pps.high
    estimate = f"{pps(part.capacity_pps)} ({pps(low)} to {pps(high)})"
    if carried <= (part.capacity_pps or 0.0) * (1 + SAME):
        return f"can carry {estimate}"
    return (
        f"carried {pps(carried)}; by the undisturbed slices of all trials the limit is {estimate}"
    )


def _headline(part: Part, sharing: Sequence[Part], carried: float) -> str:
    if part.role != "chain":
        names = all_of(p.name for p in sharing)
        return (
            f"The tester is narrower than the chain: {names} can carry {pps(part.capacity_pps)}, "
            "so it cannot show the chain's own limit."
        )
    if len(sharing) < 2:
        return f"{_called(part)} is narrowest: it {_carries(part, carried)}."
    cpus = ", ".join(map(str, part.cpus))
    names = ", ".join(p.name for p in sharing)
    return (
        f"The lcore {cpus} that {names} share is narrowest: together they "
        f"{_carries(part, carried)}. {_called(part)} is the costliest of them: "
        f"{significant(_limit_cycles(part))} cycles per packet, "
        f"{percent(part.share_of_lcore)} of the lcore's."
    )


def _limit_cycles(part: Part) -> float:
    """What a packet costs, as the capacity has it."""
    counted = part.full_burst_cycles or part.cycles_per_packet or 0.0
    return counted if part.sampled is None else part.sampled.cycles_per_packet.value


def _called(part: Part) -> str:
    """Its name, and its NFs unless the name says them."""
    if all(nf in part.name for nf in part.nfs):
        return part.name
    return f"{part.name} ({' → '.join(part.nfs)})"


def _lossy(above: Sequence[Measurement], parts: Sequence[Part]) -> Part | None:
    """The part in front of whose rings most was lost, when the load was too high."""
    full = dict.fromkeys((p.name for p in parts), 0)
    for one in above:
        # Of whose lcore did not run it cannot be told whose loss that is.
        held = {p.name for p in parts_of(one) if p.held_up}
        rings = one.counters.rings if one.counters is not None else {}
        for p in parts:
            if p.name not in held:
                full[p.name] += sum(rings[r].full for r in p.rings if r in rings)
    name = max(full, key=lambda n: full[n], default=None)
    return next((p for p in parts if p.name == name), None) if name and full[name] else None


def _paused(part: Part) -> list[str]:
    if (part.paused or 0.0) < PAUSED:
        return []
    return [
        f"Somebody else kept its lcore from working for {percent(part.paused, 2)} of the trial: "
        "that is in no packet's cycles."
    ]


def _of_cycles(part: Part, at: Measurement) -> list[str]:
    if not part.costs or part.cycles_per_packet is None or at.counters is None:
        return []
    most = max(part.costs, key=lambda c: c.cycles)
    what = {
        "nf": f"in {most.name}",
        "links": "in its links",
        "loop": "in the segment loop or while held up",
    }
    here = (
        "A packet costs" if part.sampled is None else "In the trial of this result a packet costs"
    )
    return [
        f"{here} {part.name} {significant(part.cycles_per_packet)} cycles of a "
        f"{significant(at.counters.tsc_hz / 1e9)} GHz TSC; the largest share, "
        f"{significant(most.cycles)} ({percent(most.cycles / part.cycles_per_packet, 2)}), "
        f"{what[most.kind]}."
    ]


def _of_lcores(part: Part) -> list[str]:
    texts = []
    cpus = ", ".join(str(c) for c in part.cpus)
    if part.utilisation is not None:
        left = "no cycles left" if part.utilisation >= BUSY else "the rest found no packets to poll"
        if part.utilisation >= BUSY and room(part):
            left = (
                f"its polls found {significant(part.burst or 0.0, 2)} of at most {part.most_burst} "
                "packets: when more come it takes more at a time"
            )
        texts.append(
            f"{plural(len(part.cpus), 'lcore')} ({cpus}): the busiest spent "
            f"{percent(part.utilisation)} of its time on packets; {left}."
        )
    if part.shares_cpu_with:
        others = ", ".join(part.shares_cpu_with)
        texts.append(f"{part.name} shares its lcore with {others}: their cycles add up.")
    even = 1 / max(1, len(part.cpus))
    if len(part.cpus) > 1 and (part.share_of_busiest or 0) > 1.25 * even:
        texts.append(
            f"Its replicas are loaded unevenly: one took {percent(part.share_of_busiest)} of the "
            f"packets, {percent(even)} would be even."
        )
    return texts


def _of_policy(at: Measurement) -> list[str]:
    """Where intended drops are no loss, throughput says little about the load."""
    if not at.policy_dropped:
        return []
    return [
        f"Of {pps(at.sent_pps)} sent, {percent(at.policy_dropped / (at.sent or 1))} "
        f"({count(at.policy_dropped)} packets) were dropped by policy, which is no loss here; "
        f"the throughput of {pps(at.throughput_pps)} is what was left."
    ]


def _of_loss(part: Part, above: Sequence[Measurement]) -> list[str]:
    texts = []
    for one in above:
        rings = one.counters.rings if one.counters is not None else {}
        for ring in part.rings:
            reading = rings.get(ring)
            if reading is not None and reading.full:
                texts.append(
                    f"{limits.too_much(one, above)} its ring {ring} "
                    f"({count(reading.size)} packets) was full for {count(reading.full)} packets."
                )
    return texts


def _of_drops(part: Part, at: Measurement) -> list[str]:
    total = at.sent or 1
    return [
        f"{part.name} dropped {count(n)} packets ({percent(n / total, 2)} of those sent): {place}."
        for place, n in sorted(part.drops.items(), key=lambda item: -item[1])
    ]


def of_sharing(part: Part, by_width: Sequence[Part]) -> list[str]:
    """What an lcore of its own would give the costliest part of a shared one."""
    share, capacity = part.share_of_lcore, part.capacity_pps
    alone = part.role != "chain" or len(_sharing(part.name, by_width)) < 2
    if alone or not capacity or not share or share >= 1:
        return []
    apart = [capacity / share, capacity / (1 - share)]
    rest = [p.capacity_pps or 0.0 for p in by_width if p.cpus != part.cpus]
    ratio = max(1.0, min([*apart, *rest]) / capacity)
    gain = f"at most {significant(ratio, 2)} times" if ratio >= 1 + CLOSE else "little"
    return [
        f"On an lcore of its own {part.name} could carry {pps(apart[0])}, and what is left on this "
        f"one {pps(apart[1])}: widening {part.name} so gains {gain}."
    ]


def _of_rest(part: Part, by_width: Sequence[Part]) -> list[str]:
    rest = [p for p in by_width if p.cpus != part.cpus]
    if not rest or part.capacity_pps is None or rest[0].capacity_pps is None:
        return []
    ratio = rest[0].capacity_pps / part.capacity_pps
    shared = part.role == "chain" and len(_sharing(part.name, by_width)) > 1
    if part.role != "chain":
        chain = [p for p in rest if p.role == "chain"]
        return [
            f"The chain's narrowest part is {_called(p)} with {pps(p.capacity_pps)}: "
            "more lcores for traffic, or larger frames, would show its limit."
            for p in chain[:1]
        ]
    if ratio < 1:
        return [
            f"By cycles alone {rest[0].name} would be narrower ({pps(rest[0].capacity_pps)}); the "
            "full ring in front of this part weighs more."
        ]
    if ratio < 1 + CLOSE:
        return [
            f"{rest[0].name} is hardly wider ({pps(rest[0].capacity_pps)}): "
            "widening one alone gains little."
        ]
    if shared:  # what moving the costliest of them gains is said already
        return [f"The next narrowest is {rest[0].name} with {pps(rest[0].capacity_pps)}."]
    return [
        f"The next narrowest is {rest[0].name} with {pps(rest[0].capacity_pps)}: widening "
        f"{part.name} gains at most {significant(ratio, 2)} times."
    ]


def room(part: Part) -> bool:
    """Its polls could have found more: they are no measure of what it can carry."""
    return bool(part.burst and part.most_burst and part.burst < FULL_BURST * part.most_burst)


def _of_estimate(part: Part) -> list[str]:
    """What keeps the capacity from being more than an estimate."""
    if part.sampled is not None:
        cycles, carried = part.sampled.cycles_per_packet, part.sampled.pps
        share = part.share_of_lcore or 1.0
        rest = "" if share == 1 else f", {percent(share)} of what its lcore spends"
        return [
            f"What it can carry goes by {count(part.sampled.slices)} slices of 10 ms, of all "
            "trials, in which nothing disturbed its lcore "
            f"({percent(part.sampled.quiet_share, 2)} of all were so): "
            f"{significant(cycles.value)} cycles per packet at its limit{rest}, {pps(carried.low)} "
            f"to {pps(carried.high)} with a confidence of 95 %."
        ]
    full, each = part.full_burst_cycles, part.cycles_per_packet
    if full is not None and each and full < (1 - SAME) * each and room(part):
        by = "by the model" if part.predicted else "by a line through its polls"
        return [
            f"In full bursts a packet costs {significant(full)} cycles, {by}, in those that came "
            f"{significant(each)}: what it can carry goes by the former."
        ]
    if part.predicted or part.utilisation is None or (part.utilisation >= HALF and not room(part)):
        return []
    return [
        "So far from its limit this is an estimate on the safe side: fuller bursts cost less per "
        "packet."
    ]
