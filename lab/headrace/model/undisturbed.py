# SPDX-License-Identifier: Apache-2.0
"""Capacities from slices in which nothing kept an lcore from its work.

A neighbour on the machine loses packets in the chain's name, and a search that counts losses finds
the neighbour's limit. What a packet costs in the slices that were left alone is the chain's own:
the cycles of all of them over their packets, in full bursts, as they are when an lcore has no time
left, at the highest clock that the cores had. Intervals are by the bootstrap over starts and, in
each, blocks of ten slices (0.1 s), as slices beside each other are alike (Künsch 1989, The
jackknife and the bootstrap for general stationary observations).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
import numpy.typing as npt

from headrace.model.lines_between import commonest, in_state, smoothed
from headrace.record.counters import (
    LINE_BURST,
    LINE_SPREAD,
    LINE_TURNS,
    WIDTH_LIMIT,
    ReplicaReading,
)
from headrace.record.estimates import CONFIDENCE, Capacity, Interval, PartCapacity
from headrace.record.segments import Segment
from headrace.record.slices import ReplicaSlices, Sliced, Way

FAST = 0.05  # of the slices, the fastest: their clock is the highest that the cores had
DISTURBED = 0.01  # of a slice: with more taken from its lcore it is left out
CHILLED = 0.1  # of a slice: with more taken the next one is left out, too
SLOW = 1.1  # times the usual pace of its lcore: so is one while its core was slow,
NARROW = 0.8  # or did this part of its usual additions at once: somebody on its other hyperthread
FULL = 0.9  # of the most that a poll takes, in the mean of a slice: its lcore had no time left
MOSTLY = 0.5  # of a trial's slices: it was one of that state
HALF_FULL = (
    0.5  # of the most that a poll takes: with less, what packets cost is no estimate of that
)
LEAST = 30  # slices: fewer are no sample
BLOCK = 10  # slices
DRAWS = 1000
BEST = 0.1  # of a trial's slices: in them nobody was on the other hyperthread of the core
ALONE_LEAST = 5  # slices of one trial: fewer are no rate
TURNED_AWAY = 0.05  # of what was sent, by full rings: the chain has no time left
WIRE = "wire-"  # rings in front of a chain (engine/plan_compiler.py)
_TURNS = ("turns", "turn_packets", "turn_packets_squared", "turn_cycles", "turn_cycles_by_packets")
_CYCLES = frozenset({"ops", "turn_cycles", "turn_cycles_by_packets"})
_SUMMED = ("ops", "packets", "found", *_TURNS)

Draws = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Key = tuple[str, int]  # of a replica


def _taken(one: ReplicaSlices) -> Draws:
    """The share of each slice that others had."""
    cycles = np.maximum(one["pauses"], one["kept_us"] * 1e-6 * one.tsc_hz)
    return np.asarray(cycles / np.maximum(one["ref"], 1))


def _cold(one: ReplicaSlices) -> Mask:
    """The slices just behind one of which others had a good part: in them the lcore fills its
    caches anew, and packets were 5 to 9 % dearer."""
    taken, begin = _taken(one) > CHILLED, one["end"] - one["ref"]
    behind = np.zeros_like(taken)
    behind[1:] = taken[:-1] & (begin[1:] - one["end"][:-1] < one["ref"][1:])
    return behind


Lines = Mapping[Way, float]


def _way(sample: Sliced, one: ReplicaSlices) -> Way:
    return one.cpu, frozenset(other.cpu for other in sample.replicas)


def usual_lines(samples: Iterable[Sliced]) -> dict[Way, float]:
    """TSC cycles of a line that the next lcore wrote, for each way, in the state of the machine
    that most of its slices are of. Ways differ by where lcores are, too, and are not compared with
    each other. An lcore that is alone has none."""
    several: dict[Way, list[Draws]] = {}
    for each in samples:
        for one in each.replicas:
            several.setdefault(_way(each, one), []).append(smoothed(one["line"]))
    usual = {way: commonest(lines) for way, lines in several.items()}
    return {way: line for way, line in usual.items() if line is not None}


def line_of(sample: Sliced) -> float | None:
    """The mean over its ways; None: it tells nothing of lines."""
    known = usual_lines([sample])
    return fmean(known.values()) if known else None


def of_usual_state(sample: Sliced, lines: Lines) -> float:
    """The share of a trial's slices that are of the state in which lines cost so much."""
    states = [
        in_state(smoothed(one["line"]), lines.get(_way(sample, one))) for one in sample.replicas
    ]
    return float(np.concatenate(states).mean()) if any(one.size for one in states) else 1.0


def line_cycles(samples: Iterable[Sliced]) -> float | None:
    """The mean over the ways between lcores, of the slices that count."""
    known = {_way(each, one): one.line for each in samples for one in each.replicas if one.line}
    return fmean(known.values()) if known else None


def _counting(sample: Sliced, lines: Lines) -> Sliced:
    replicas = (replace(one, line=lines.get(_way(sample, one))) for one in sample.replicas)
    return replace(sample, replicas=tuple(replicas))


def quiet(one: ReplicaSlices) -> Mask:
    """The slices in which nothing disturbed its lcore, as far as one can tell; and in which the
    hypervisor had the lcores where they are in those that count (lines_between.py)."""
    pace = one["pace"] / one.additions
    width = 4 * pace * one.additions / np.maximum(one["wide"], 1)
    alone = _taken(one) <= DISTURBED
    sampled = one["pace"] > 0  # not while it waited for room in front of it
    if not sampled.any():
        return sampled
    usual, wide = np.median(pace[sampled]), np.median(width[sampled])
    same = (pace <= SLOW * usual) & (pace >= usual / SLOW**2) & (width >= NARROW * wide)
    return np.asarray(alone & sampled & same & in_state(smoothed(one["line"]), one.line))


def left_alone(replicas: Sequence[ReplicaSlices]) -> float | None:
    """The share of slices in which nothing disturbed the lcore that was disturbed most; None: there
    are no slices."""
    shares = [float(quiet(one).mean()) for one in replicas if one["ref"].size]
    return min(shares, default=None)


@dataclass(frozen=True)
class Alone:
    """What slices say in which no lcore of the engine was kept from its work, over what all slices
    say: of a segment's packets per second, and of each replica's cycles per packet."""

    rate: float
    cycles: Mapping[Key, float]


def alone(sample: Sliced, segment: str) -> Alone | None:
    """Where rings wait, an lcore that stands still, or shares its core, holds up all of them. None:
    there are fewer than ALONE_LEAST slices in which none did."""
    held = [(one["end"] - one["ref"], one["end"], _held(one)) for one in sample.replicas]
    begins = np.concatenate([begin[mask] for begin, _, mask in held])
    ends = np.concatenate([end[mask] for _, end, mask in held])
    alone_pps = all_pps = 0.0
    cycles: dict[Key, float] = {}
    for one in sample.replicas:
        begin, end = one["end"] - one["ref"], one["end"]
        mask = ~((begins < end[:, None]) & (ends > begin[:, None])).any(axis=1)
        if one.segment == segment:
            if mask.sum() < ALONE_LEAST:
                return None
            alone_pps += one["packets"][mask].sum() / one["ref"][mask].sum()
            all_pps += one["packets"].sum() / one["ref"].sum()
        packets = one["packets"][mask].sum()
        if packets and one["ops"].sum():
            whole = one["ops"].sum() / one["packets"].sum()
            cycles[one.segment, one.index] = float(one["ops"][mask].sum() / packets / whole)
    return Alone(float(alone_pps / all_pps), cycles) if all_pps else None


def _held(one: ReplicaSlices) -> Mask:
    """The slices in which others had its lcore, or were busy on the other hyperthread of its core;
    the cold ones behind the former; and those in which the hypervisor had the lcores elsewhere than
    in most."""
    line = smoothed(one["line"])
    away = ~in_state(line, commonest([line]))
    return np.asarray((_taken(one) > DISTURBED) | _cold(one) | _shared(one) | away)


def _shared(one: ReplicaSlices) -> Mask:
    """The slices that begin or end with a core that does a fifth fewer additions at once than in
    the best of them, or as few as beside a busy hyperthread."""
    sampled = one["pace"] > 0  # not while it waited for room in front of it
    if not sampled.any():
        return sampled
    width = np.where(sampled, 4 * one["pace"] / np.maximum(one["wide"], 1), np.inf)
    narrow = width < max(WIDTH_LIMIT, NARROW * float(np.quantile(width[sampled], 1 - BEST)))
    narrow[1:] |= narrow[:-1].copy()
    return np.asarray(narrow)


@dataclass(frozen=True)
class _Cost:
    """Cycles of a packet of one replica, as drawn by the bootstrap; the first is the estimate."""

    draws: Draws
    slices: int
    at_limit: bool


def capacity(starts: Sequence[Sequence[Sliced]], lines: Lines | None = None) -> Capacity | None:
    """A chain's, that was deployed one time or several in the same way: the trials of each.
    `lines`: of slices in which a line of another lcore cost so much; None: of the state that most
    of these are of. None: a part of the chain has no sample, as too few of its slices were left
    alone."""
    if lines is None:
        lines = usual_lines(one for start in starts for one in start)
    every = [[_counting(one, lines) for one in start if one.replicas] for start in starts]
    saturated = [[one for one in start if _saturated(one)] for start in every]
    # What comes in full bursts beside the limit has just been written, and is dearer to receive
    # than what has waited (docs/design/handover.md): the limit is where packets wait.
    estimate = _capacity([one for one in saturated if one]) or _capacity(
        [one for one in every if one]
    )
    if estimate is None:
        return None
    # Starts differ, by the clock of their cores for one thing. What one of them carried, the chain
    # can carry in that state of the machine: the interval has it.
    there = (one for start in every for one in start if of_usual_state(one, lines) >= MOSTLY)
    most = max(map(_taken_pps, there), default=0.0)
    return estimate.model_copy(
        update={
            "parts": tuple(_with(one, most) for one in estimate.parts),
            "pps": estimate.pps.with_high(most),
        }
    )


def _with(part: PartCapacity, taken_pps: float) -> PartCapacity:
    if part.role != "chain":
        return part
    return part.model_copy(update={"pps": part.pps.with_high(taken_pps)})


def _taken_pps(sample: Sliced) -> float:
    """What the chain took in, over all slices, disturbed or not."""
    rate = 0.0
    for one in sample.replicas:
        counted = _counted(sample, (one.segment, one.index))
        first = counted is not None and any(link.startswith(WIRE) for link in counted.inputs)
        if first and one["ref"].size:
            rate += one["packets"].sum() / one["ref"].sum() * one.tsc_hz
    return float(rate)


def _saturated(sample: Sliced) -> bool:
    return not sample.load_pps or _turned_away(sample) >= TURNED_AWAY


def _capacity(starts: Sequence[Sequence[Sliced]]) -> Capacity | None:
    some = [one for start in starts for one in start]
    if not some:
        return None
    pace = _fastest(some)
    costs = {key: _cost(starts, key, pace) for key in _keys(some)}
    visits = _visits(some)
    parts = [
        part
        for segment in some[0].segments
        if (part := _part(segment, some, costs, visits, pace)) is not None
    ]
    chain = [one for one in parts if one.role == "chain"]
    if not chain or len(chain) < sum(one.role == "chain" for one in some[0].segments):
        return None
    least = min(chain, key=lambda one: one.pps.value)
    return Capacity(
        parts=tuple(parts),
        narrowest=least.name,
        pps=least.pps,
        trials=len(some),
        line_cycles=line_cycles(some),
    )


def _keys(samples: Sequence[Sliced]) -> list[Key]:
    return [(one.segment, one.index) for one in samples[0].replicas]


def _of(sample: Sliced, key: Key) -> ReplicaSlices:
    return next(one for one in sample.replicas if (one.segment, one.index) == key)


def _counted(sample: Sliced, key: Key) -> ReplicaReading | None:
    replicas = sample.counters.replicas
    return next((one for one in replicas if (one.segment, one.index) == key), None)


def _burst(samples: Sequence[Sliced], key: Key) -> int:
    readings = (_counted(one, key) for one in samples)
    return max((one.burst or 0 for one in readings if one is not None), default=0)


Columns = Mapping[str, Draws]


def _fastest(samples: Sequence[Sliced]) -> float:
    """TSC cycles of an addition at the highest clock of the cores. Clocks wander by a tenth from
    moment to moment, and what a chain can carry with them: cycles are stated at this one."""
    paces = np.concatenate(
        [one["pace"][quiet(one)] / one.additions for each in samples for one in each.replicas]
    )
    if not paces.size:
        return 1.0
    return float(np.sort(paces)[: max(1, round(FAST * paces.size))].mean())


def _cost(starts: Sequence[Sequence[Sliced]], key: Key, pace: float) -> _Cost | None:
    """The cost in full bursts: by slices of such, or else by the line through polls of the slices
    that come nearest to it. None: far from full bursts the line tells nothing, and a packet that
    comes alone costs several times what it does in company."""
    burst = _burst([one for start in starts for one in start], key)
    each = [_worked([_of(one, key) for one in start]) for start in starts]
    together = [one["packets"] / np.maximum(one["found"], 1) for one in each]
    count = sum(one.size for one in together)
    full = [one >= FULL * burst for one in together]
    if sum(int(one.sum()) for one in full) >= LEAST:
        sums = _resampled(_stated(each, full, pace), full)
        return _Cost(sums["ops"] / sums["packets"], sum(int(one.sum()) for one in full), True)
    if count < LEAST:
        return None
    limit = np.quantile(np.concatenate(together), 1 - max(0.25, LEAST / count))
    near = [one >= limit for one in together]
    sums = _resampled(_stated(each, near, pace), near)
    lines = _lines(sums, burst)
    if np.isnan(lines[0]) and sums["packets"][0] < HALF_FULL * burst * sums["found"][0]:
        return None
    costs = np.fmin(sums["ops"] / sums["packets"], lines)
    return _Cost(costs, sum(int(one.sum()) for one in near), False)


def _worked(trials: Sequence[ReplicaSlices]) -> Columns:
    """Undisturbed slices with packets, of one start; the pace is of one addition."""
    columns: dict[str, list[Draws]] = {name: [] for name in (*_SUMMED, "pace")}
    for one in trials:
        chosen = quiet(one) & ~_cold(one) & (one["packets"] > 0)
        for name, column in columns.items():
            values = one[name][chosen]
            column.append(values / one.additions if name == "pace" else values)
    return {name: np.concatenate(column) for name, column in columns.items()}


def _stated(starts: Sequence[Columns], masks: Sequence[Mask], pace: float) -> list[Columns]:
    """The same with cycles as they had been at this pace.

    What a packet costs follows the clock of its core where it is computed, and does not where it
    waits for memory or for another clock: how far it does, these slices tell themselves, by the
    line through the logarithms of both. Where the clock hardly moved there is little to correct."""
    chosen = list(zip(starts, masks, strict=True))
    paces = np.log(np.concatenate([one["pace"][mask] for one, mask in chosen]))
    costs = np.log(
        np.concatenate([one["ops"][mask] / one["packets"][mask] for one, mask in chosen])
    )
    spread = paces - paces.mean()
    moved = float(spread @ spread)
    follows = float(spread @ (costs - costs.mean())) / moved if moved > 0 else 0.0
    stated: list[Columns] = []
    for one in starts:
        scale = (pace / one["pace"]) ** follows
        stated.append({n: c * scale if n in _CYCLES else c for n, c in one.items() if n in _SUMMED})
    return stated


def _resampled(starts: Sequence[Columns], masks: Sequence[Mask]) -> dict[str, Draws]:
    """The sum of each column over all starts, and those of DRAWS samples: of starts, and in each of
    blocks of its slices. The same seed each time, so that replicas of one lcore have the same
    drawn: what slows an lcore slows them all."""
    some = _alike(
        [
            {name: column[mask] for name, column in columns.items()}
            for columns, mask in zip(starts, masks, strict=True)
            if mask.any()
        ]
    )
    random = np.random.default_rng(1)
    chosen = random.integers(0, len(some), size=(DRAWS, len(some)))
    sums = {name: np.zeros(DRAWS + 1) for name in _SUMMED}
    for turn in range(len(some)):
        for start, columns in enumerate(some):
            firsts = np.arange(0, columns["packets"].size, BLOCK)
            drawn = random.integers(0, len(firsts), size=(DRAWS, len(firsts)))
            here = chosen[:, turn] == start
            for name, column in columns.items():
                blocks = np.add.reduceat(column, firsts)
                sums[name][1:][here] += blocks[drawn[here]].sum(axis=1)
                sums[name][0] += column.sum() if not turn else 0.0
    return sums


def _alike(starts: Sequence[Columns]) -> list[Columns]:
    """Each start counts the same, however long it went on: a search's, which is one draw of many
    seconds, would outweigh those of the comparison in turn. One with few slices counts less."""
    packets = np.array([one["packets"].sum() for one in starts])
    counts = np.array([min(1.0, one["packets"].size / LEAST) for one in starts])
    weights = counts / packets * packets.sum() / counts.sum()
    return [
        {name: column * weight for name, column in one.items()}
        for one, weight in zip(starts, weights, strict=True)
    ]


def _lines(sums: Columns, burst: int) -> Draws:
    """What a packet takes in full bursts, by the line through polls of each draw (Turns.line); nan
    where that tells nothing."""
    n = np.maximum(sums["turns"], 1)
    mean, cycles = sums["turn_packets"] / n, sums["turn_cycles"] / n
    variance = sums["turn_packets_squared"] / n - mean * mean
    tells = (n >= LINE_TURNS) & (mean >= LINE_BURST) & (variance >= LINE_SPREAD * mean * mean)
    slope = (sums["turn_cycles_by_packets"] / n - mean * cycles) / np.where(tells, variance, 1)
    fixed = cycles - slope * mean
    known = tells & (fixed > 0) & (slope > 0) & (burst > 0)
    return np.where(known, fixed / max(burst, 1) + slope, np.nan)


def _interval(draws: Draws) -> Interval:
    outside = (1 - CONFIDENCE) / 2
    low, high = np.quantile(draws[1:], [outside, 1 - outside])
    value = float(draws[0])
    return Interval(value=value, low=min(value, float(low)), high=max(value, float(high)))


def _visits(samples: Sequence[Sliced]) -> dict[Key, float]:
    """How often a packet that the chain takes in comes to each replica, what its rings turned away
    included; of a generator, by the packets that it made itself. From the sample that lost least,
    as what was lost in front of a part is not seen behind it."""
    sample = min(samples, key=_turned_away)
    replicas = sample.counters.replicas
    roles = {one.name: one.role for one in sample.segments}
    taken = sum(n for r in replicas for link, n in r.inputs.items() if link.startswith(WIRE))
    inside = [r.packets_in for r in replicas if roles.get(r.segment) == "chain"]
    taken = taken or max(inside, default=0)
    generated = sum(r.packets_in for r in replicas if roles.get(r.segment) == "generator")
    visits = {}
    for r in replicas:
        base = generated if roles.get(r.segment) == "generator" else taken
        visits[(r.segment, r.index)] = r.packets_in / base if base else 0.0
    return visits


def _turned_away(sample: Sliced) -> float:
    """Share of packets that rings had no room for."""
    full = sum(ring.full for ring in sample.counters.rings.values())
    most = max((r.packets_in for r in sample.counters.replicas), default=0)
    return full / most if most else 0.0


def _part(
    segment: Segment,
    samples: Sequence[Sliced],
    costs: Mapping[Key, _Cost | None],
    visits: Mapping[Key, float],
    pace: float,
) -> PartCapacity | None:
    own = [key for key in costs if key[0] == segment.name]
    known = [(key, cost) for key in own if (cost := costs[key]) is not None and visits.get(key)]
    if not known or len(known) < len([key for key in own if visits.get(key)]):
        return None
    tsc_hz = samples[0].replicas[0].tsc_hz
    weights = [visits[key] for key, _ in known]
    packet = sum(w * cost.draws for w, (_, cost) in zip(weights, known, strict=True)) / sum(weights)
    cpus = {_of(samples[0], key).cpu for key, _ in known}
    widths = [tsc_hz / cycles for cpu in cpus if (cycles := _on(cpu, samples[0], costs, visits))
              is not None]  # fmt: skip
    if len(widths) < len(cpus):
        return None
    narrowest = min(widths, key=lambda draws: float(draws[0]))
    left_alone = np.concatenate([quiet(_of(one, key)) for one in samples for key in own])
    return PartCapacity(
        name=segment.name,
        role=segment.role,
        cpus=segment.cpus,
        cycles_per_packet=_interval(np.asarray(packet)),
        pps=_interval(narrowest),
        tsc_hz=tsc_hz,
        clock_hz=tsc_hz / pace,
        quiet_share=float(left_alone.mean()) if left_alone.size else 0.0,
        slices=sum(cost.slices for _, cost in known),
        at_limit=all(cost.at_limit for _, cost in known),
    )


def _on(
    cpu: int, sample: Sliced, costs: Mapping[Key, _Cost | None], visits: Mapping[Key, float]
) -> Draws | None:
    """Cycles of an lcore for one packet offered to the chain; None: somebody's are not known."""
    total: Draws = np.zeros(DRAWS + 1)
    for one in sample.replicas:
        key = (one.segment, one.index)
        cost = costs[key]
        if one.cpu != cpu or not visits.get(key):
            continue
        if cost is None:
            return None
        total = total + visits[key] * cost.draws
    return total if total[0] > 0 else None
