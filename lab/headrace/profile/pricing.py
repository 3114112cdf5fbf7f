# SPDX-License-Identifier: Apache-2.0
"""What a chain's functions cost in each place that a layout can put them, out of a few runs of the
whole chain in layouts that together have all of these places."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from statistics import median

from headrace.layout.layout import (
    HALVINGS_MAX,
    Edge,
    Hop,
    Layout,
    Lcores,
    NfCost,
    Problem,
    Traffic,
    further,
    homes,
    loads,
)

# The name of one of the layouts below.
Run = str
# Beyond this share of its work a function does not wait for its tables, but has other ways for
# fewer flows, as a cache in front of its rules.
_RELIEF_MOST = 0.25


def layouts(n: int, lcores: Sequence[int]) -> dict[Run, Layout]:
    """Traffic is made on the first lcore and measured on the last. Between them they have every
    function behind another in its segment; as the first of a segment, with packets from its own
    lcore and from another, as one replica and as one of two; and sending to its own lcore and to
    another. `half`: as whole, with half of the flows. `from 1`, `from 2`, ...: so many functions
    where packets are made, the others where they are measured. What they change lcores for only
    once costs less than where they go back and forth, as in `odd` and `even`."""
    first, last = lcores[0], lcores[-1]
    both = (first, last)
    choices: dict[Run, Layout] = {
        "whole": Layout((n,), ((last,),)),
        "half": Layout((n,), ((last,),)),
        "near": Layout((n,), ((first,),)),
        "replicas": Layout((n,), (both,)),
    }
    if n > 1:
        ones = (1,) * n
        choices |= {
            "in turn": Layout(ones, ((last,),) * n),
            # Headers are in the caches of the lcore that made them: who reads them first pays less.
            "near in turn": Layout(ones, ((first,),) * n),
            "odd": Layout(ones, tuple(((last,), (first,))[i % 2] for i in range(n))),
            "even": Layout(ones, tuple(((first,), (last,))[i % 2] for i in range(n))),
            "replicas in turn": Layout(ones, (both,) * n),
        }
        for i in range(1, n):
            once = Layout(ones, ((first,),) * i + ((last,),) * (n - i))
            if once not in choices.values():
                choices[f"from {i}"] = once
    return choices


@dataclass(frozen=True)
class PricedPart:
    """One lcore's part of a stage, in cycles per packet that it got. `nfs`: by position, each per
    packet that came to it; `own`: of all of them."""

    cpu: int
    packets: float  # per packet of the source
    rx: float
    tx: float
    loop: float
    burst: float
    own: float = 0.0
    nfs: Mapping[int, float] = field(default_factory=dict)

    @property
    def cycles(self) -> float:
        return self.rx + self.tx + self.loop + self.own


@dataclass(frozen=True)
class Taken:
    """One run. `stages`: source, the segments, sink. `away`: a hypervisor had the lcores elsewhere
    in all of it than in the others."""

    layout: Layout
    stages: tuple[tuple[PricedPart, ...], ...]
    sent_pps: float
    away: bool = False


@dataclass(frozen=True)
class _Seen:
    """A cost in its place. `near`: the packet's other place is on the same lcore; for what replicas
    send, it is replicas on the same lcores; None: that of half of the packets. `again`: it has been
    on this lcore before, and comes from another."""

    what: str
    nf: int
    cpu: int
    near: bool | None
    replicated: bool
    cycles: float
    again: bool = False
    away: bool = False  # seen in a run that was


def price(
    names: Sequence[str],
    runs: Mapping[Run, Taken],
    edges: Sequence[Edge],
    lcores: Sequence[int],
    tsc_hz: float,
    resteers: Collection[str] = (),
) -> Problem:
    """`runs`: any of them; without `half` tables are as if of no size. `resteers`: the functions
    behind which a flow has another one of as many replicas."""
    relief, crowd = _relief(len(names), runs), _crowd(runs)
    mixing = [i for i, name in enumerate(names) if name in resteers]
    seen = _of_one_state(
        [
            replace(one, away=taken.away)
            for name, taken in runs.items()
            if name != "half"
            for one in _seen(taken, relief, edges, crowd, mixing)
        ]
    )

    def nfs(cpu: int | None) -> tuple[NfCost, ...]:
        costs = (_nf(seen, i, name, cpu, relief[i]) for i, name in enumerate(names))
        return tuple(replace(nf, resteers=nf.name in resteers) for nf in costs)

    ends = tuple(dict.fromkeys((lcores[0], lcores[-1])))
    priced = Problem(
        nfs(None),
        Traffic(
            source=_hop(seen, "source", 0, None),
            sink=_hop(seen, "sink", 0, None),
            receive=_hop(seen, "sink's receiving", 0, None),
            generator=lcores[0],
            measure=lcores[-1],
            steer=_steer(runs),
            crowd=crowd,
        ),
        tuple(lcores),
        tsc_hz,
        edges=tuple(edges),
        special={cpu: nfs(cpu) for cpu in ends},
    )
    return replace(priced, kept=_kept(priced, runs))


def _of_one_state(seen: Sequence[_Seen]) -> list[_Seen]:
    """Without what was seen with lcores elsewhere, where something else tells of the same: a line
    costs four times as much there. What then lacks on one side is as far from the other as it is
    for other functions."""
    known = {(one.what, one.nf, one.replicated) for one in seen if not one.away}
    return [one for one in seen if not one.away or (one.what, one.nf, one.replicated) not in known]


def _alike(runs: Mapping[Run, Taken], one: Run, other: Run) -> bool:
    """Both were run, and in one state of the machine: else it is that by which they differ."""
    return one in runs and other in runs and runs[one].away == runs[other].away


def _relief(n: int, runs: Mapping[Run, Taken]) -> list[float]:
    """What each function saves where all of its tables are half as large."""
    if not _alike(runs, "whole", "half"):
        return [0.0] * n
    whole, half = (_work(runs[name]) for name in ("whole", "half"))
    return [min(max(0.0, whole[i] - half[i]), _RELIEF_MOST * whole[i]) for i in range(n)]


def _work(taken: Taken) -> dict[int, float]:
    return {i: cycles for stage in taken.stages for part in stage for i, cycles in part.nfs.items()}


def _seen(
    taken: Taken,
    relief: Sequence[float],
    edges: Sequence[Edge],
    crowd: float,
    resteers: Collection[int],
) -> Iterator[_Seen]:
    on = [tuple(part.cpu for part in stage) for stage in taken.stages]
    crowds = _crowds(taken, relief)
    home = homes(len(relief), taken.layout)
    mixed = {home[i] for i in resteers}
    for at, stage in enumerate(taken.stages):
        stages = {home[e.origin] for e in edges if home[e.target] == at != home[e.origin]}
        before = {(on[i], i in mixed) for i in stages}
        after = {on[home[e.target]] for e in edges if home[e.origin] == at != home[e.target]}
        for part in stage:
            if at == 0:
                beside = further(taken.layout, part.cpu) if len(on[1]) > 1 else 0
                yield from _end("source", part, on[1], beside * crowd)
            elif at == len(on) - 1:
                for others, _ in before if len(before) == 1 else ():
                    yield from _end("sink", part, others)
                    yield from _end("sink's receiving", part, others, part.tx)
            else:
                been = any(part.cpu in others for others in on[:at])
                for one in _received(part, before, on[at], crowds[part.cpu], relief):
                    yield replace(one, again=been and not one.near)
                yield from _sent(part, after, on[at], at in mixed)


def _end(what: str, part: PricedPart, others: Lcores, beside: float = 0.0) -> Iterator[_Seen]:
    several, cycles = len(others) > 1, part.rx + part.tx - beside
    for near in (True, False) if several else (part.cpu in others,):
        yield _Seen(what, 0, part.cpu, near, several, cycles)


def _received(
    part: PricedPart,
    before: Set[tuple[Lcores, bool]],
    own: Lcores,
    crowd: float,
    relief: Sequence[float],
) -> Iterator[_Seen]:
    """`before`: where packets come from, and whether flows are steered otherwise behind it. Nothing
    of the first function where its packets come from the same lcore and from others, but for
    halves of what replicas get."""
    replicated = len(own) > 1
    positions = sorted(part.nfs)
    near = {_near(part.cpu, of, own, mixed) for of, mixed in before}
    halves = before == {(own, True)} and len(own) == 2
    usual = 0.5 if replicated else 1.0
    halvings = min(HALVINGS_MAX, math.log2(usual / crowd)) if crowd else 0.0
    joined = "joined " if len(positions) > 1 else ""
    told = near in ({True}, {False}) or halves
    if told:
        [one] = near
        yield _Seen(f"{joined}rx", positions[0], part.cpu, one, replicated, part.rx)
    for i in positions:
        if i != positions[0] or told:
            what = f"{joined}work" if i == positions[0] else "work"
            here = True if i != positions[0] else one
            cycles = part.nfs[i] + halvings * relief[i]
            yield _Seen(what, i, part.cpu, here, replicated, cycles)
    yield _Seen("loop", positions[0], part.cpu, True, replicated, part.loop)


def _near(cpu: int, of: Lcores, own: Lcores, mixed: bool) -> bool | None:
    """Whether packets come from the same lcore; None: some of both. Among as many replicas a flow
    keeps to one, unless it is steered otherwise."""
    if cpu not in of or (of == own and not mixed):
        return cpu in of
    return True if len(of) == 1 else None


def _sent(part: PricedPart, after: Set[Lcores], own: Lcores, mixed: bool) -> Iterator[_Seen]:
    """What one replica's sending costs to several is not seen apart from their steering."""
    if len(after) != 1:
        return
    [to] = after
    if len(own) > 1 or len(to) == 1:
        near = None if mixed and len(own) > 1 and to == own else to == own
        yield _Seen("tx", max(part.nfs), part.cpu, near, len(own) > 1, part.tx)


def _crowds(taken: Taken, relief: Sequence[float]) -> dict[int, float]:
    crowds: dict[int, float] = {}
    for stage in taken.stages:
        for part in stage:
            here = sum(relief[i] for i in part.nfs) / len(stage) / (sum(relief) or 1.0)
            crowds[part.cpu] = crowds.get(part.cpu, 0.0) + here
    return crowds


def _nf(seen: Sequence[_Seen], i: int, name: str, cpu: int | None, relief: float) -> NfCost:
    work, replicated = _hop(seen, "work", i, cpu), None
    if work.replicas is not None:
        replicated = work.replicas[0]
    loops = [one.cycles for one in seen if one.what == "loop" and one.nf == i]
    joined = None
    if any(one.what == "joined rx" and one.nf == i for one in seen):
        joined = _hop(seen, "joined rx", i, cpu), _hop(seen, "joined work", i, cpu)
    return NfCost(
        name=name,
        joined=joined,
        rx=_hop(seen, "rx", i, cpu),
        work=work,
        tx=_hop(seen, "tx", i, cpu),
        # An lcore that had to wait for another one shows more.
        loop=min(loops, default=0.0),
        replicated=replicated,
        relief=relief,
    )


def _hop(seen: Sequence[_Seen], what: str, i: int, cpu: int | None) -> Hop:
    """What was not seen of this function is as far from what was as it is for the others."""

    def cost(near: bool | None, replicated: bool) -> float | None:
        here = [
            one for one in seen if (one.what, one.near, one.replicated) == (what, near, replicated)
        ]
        own = [one for one in here if one.nf == i]
        on = [one for one in own if one.cpu == cpu] or own
        once = [one for one in on if not one.again] or on
        return median(one.cycles for one in once) if once else None

    def further(replicated: bool) -> float:
        """What a packet costs more from near to apart, over the functions that were seen in
        both; those that have others behind them as those that have none."""
        for of in (what, what.removeprefix("joined ")):
            if pairs := _further(seen, of, replicated):
                return median(pairs)
        return 0.0

    def pair(replicated: bool) -> tuple[float, float] | None:
        near, apart = cost(True, replicated), cost(False, replicated)
        if near is None and apart is None:
            if (middle := cost(None, replicated)) is None:
                return None
            half = min(middle, further(replicated) / 2)
            return middle - half, middle + half
        if near is None:
            assert apart is not None
            return max(0.0, apart - further(replicated)), apart
        if apart is None:
            return near, max(0.0, near + further(replicated))
        return near, apart

    one = pair(False) or (0.0, 0.0)
    return Hop(one[0], one[1], pair(True))


def _further(seen: Sequence[_Seen], what: str, replicated: bool) -> list[float]:
    pairs = []
    for j in {one.nf for one in seen if one.what == what}:
        near, apart = (
            [
                one.cycles
                for one in seen
                if (one.what, one.nf, one.near, one.replicated) == (what, j, side, replicated)
            ]
            for side in (True, False)
        )
        if near and apart:
            pairs.append(median(apart) - median(near))
    return pairs


def _steer(runs: Mapping[Run, Taken]) -> float:
    """What choosing a replica adds to sending, by the source's."""
    if not _alike(runs, "near", "replicas"):
        return 0.0
    [source], [plain] = runs["replicas"].stages[0], runs["near"].stages[0]
    return max(0.0, source.tx - plain.tx)


def _crowd(runs: Mapping[Run, Taken]) -> float:
    """What each further segment beside the source adds to making a packet for replicas."""
    if not _alike(runs, "replicas", "replicas in turn"):
        return 0.0
    (one,), (several,) = (runs[name].stages[0] for name in ("replicas", "replicas in turn"))
    more = several.rx + several.tx - one.rx - one.tx
    return max(0.0, more) / further(runs["replicas in turn"].layout, several.cpu)


def _kept(problem: Problem, runs: Mapping[Run, Taken]) -> float:
    """The throughput over what the cycles of the busiest lcore would allow."""
    several = [taken for name, taken in runs.items() if name != "half"]
    return median(
        taken.sent_pps * max(loads(problem, taken.layout).values()) / problem.tsc_hz
        for taken in [one for one in several if not one.away] or several
    )
