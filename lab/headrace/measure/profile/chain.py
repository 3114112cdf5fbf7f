# SPDX-License-Identifier: Apache-2.0
"""What a chain's functions cost each for itself, in the neighbourhoods that a layout can put them
in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from headrace.measure.prepare import Prepared
from headrace.measure.profile import point as points
from headrace.measure.profile import rounds
from headrace.measure.profile.deploy import deployed
from headrace.measure.profile.point import Bench, Sample
from headrace.measure.profile.rounds import Case
from headrace.measure.profile.verified import Reference
from headrace.optimize.layout import Hop, Layout, Lcores, NfCost, Problem, Traffic
from headrace.spec.document import Document
from headrace.spec.profile import PlaceCost, Places, Settings
from headrace.spec.study import Experiment

Say = Callable[[str], None]
# Below this share a function alone does not get the packets that it is made for.
_PASSES = 0.9
# At a part of the load bursts must really be smaller to show what a poll costs once.
_SMALLER = 0.7
# Twice, all of it between: what is added up was then measured at the same pace.
_ROUNDS = 2


# The three neighbourhoods in which each function is measured; traffic is made on the first lcore
# and measured on the last, as in every layout, so that packets' buffers travel the same way.
def _neighbourhoods(lcores: Sequence[int]) -> tuple[Layout, Layout, Layout]:
    first, last = lcores[0], lcores[-1]
    near = Layout((1,), ((first,),))  # packets from its own lcore, to another
    far = Layout((1,), ((last,),))  # from another lcore, to its own
    return near, far, Layout((1,), ((first, last),))


@dataclass(frozen=True)
class Priced:
    """Costs; `reference`: all functions in one segment on the measuring lcore."""

    problem: Problem
    reference: Reference


def problem(
    bench: Bench, doc: Document, experiment: Experiment, lcores: Sequence[int], say: Say
) -> Priced:
    """Costs of each function alone, measured at the chain's own parameters and traffic."""
    ends = _ends(lcores)
    nodes = experiment.nodes
    cases = [_cases(bench, doc, experiment, ends, i) for i in range(len(nodes))]
    together = _whole(bench, doc, experiment, ends) if len(nodes) > 1 else ()
    rounds.measure(bench, [*(one for three in cases for one in three), *together], _ROUNDS)
    alone = [_costs(bench, ends, three) for three in cases]
    nfs = [nf_cost(node.name, *costs) for node, costs in zip(nodes, alone, strict=True)]
    for i, (node, (near, _, _)) in enumerate(zip(nodes, alone, strict=True)):
        if near.passed < _PASSES and i > 0:
            say(f"{node.name}: drops traffic that nobody has changed; measured behind others")
    if together:
        whole, half, in_turn = together
        nfs = _behind(_together(nfs, alone, whole, half), in_turn)
    traffic, kept = traffic_of(alone, lcores), kept_of(alone)
    _tell(nfs, traffic, kept, say)
    # Of one function `far` is all of them on the measuring lcore.
    beside = together[0] if together else cases[0][1]
    reference = Reference(
        f"all functions in one segment on lcore {ends.traffic.measure}",
        beside.one,
        beside.throughput_pps,
        points.speed(beside.samples, bench.tsc_hz),
    )
    found = Problem(tuple(nfs), traffic, tuple(lcores), bench.tsc_hz, kept=kept)
    return Priced(found, reference)


def _tell(nfs: Sequence[NfCost], traffic: Traffic, kept: float, say: Say) -> None:
    for nf in nfs:
        say(
            f"{nf.name}: {nf.work.same:.1f} cycles, {nf.work.apart:.1f} on packets from another "
            f"lcore; receive {_pair(nf.rx)}{_later(nf)}, send {_pair(nf.tx)}; "
            f"a poll {nf.poll:.0f}"
        )
    say(
        f"traffic: source {traffic.source.same:.1f} or {traffic.source.apart:.1f}, "
        f"sink {traffic.sink.same:.1f} or {traffic.sink.apart:.1f}"
    )
    say(f"what these cycles leave out, by the functions alone: {1 - kept:.1%} of the throughput")


def _pair(hop: Hop) -> str:
    return f"{hop.same:.1f} or {hop.apart:.1f}"


def _later(nf: NfCost) -> str:
    return f", behind other segments {_pair(nf.behind)}" if nf.behind else ""


def _ends(lcores: Sequence[int]) -> Problem:
    """Where traffic is made and measured; nothing has a cost yet."""
    return Problem((), Traffic(_FREE, _FREE, lcores[0], lcores[-1]), tuple(lcores), 0.0)


def _cases(
    bench: Bench, doc: Document, experiment: Experiment, ends: Problem, i: int
) -> tuple[Case, Case, Case]:
    """Of one function: near, far, spread."""
    near, far, spread = (
        Case(deployed(bench, doc, experiment, ends, layout, [i]))
        for layout in _neighbourhoods(ends.lcores)
    )
    return near, far, spread


def _costs(
    bench: Bench, ends: Problem, three: tuple[Case, Case, Case]
) -> tuple[Costs, Costs, Costs]:
    near, far, spread = (
        costs_of(case, _kept(case.samples, ends, layout.lcores[0], bench.tsc_hz))
        for case, layout in zip(three, _neighbourhoods(ends.lcores), strict=True)
    )
    return near, far, spread


def _kept(samples: Sequence[Sample], ends: Problem, on: Lcores, tsc_hz: float) -> float:
    """The throughput over what the cycles of its busiest lcore would allow."""
    found = []
    for s in samples:
        loads = dict.fromkeys((ends.traffic.generator, ends.traffic.measure, *on), 0.0)
        loads[ends.traffic.generator] += s.source
        loads[ends.traffic.measure] += s.sink
        for cpu in on:
            loads[cpu] += s.chain / len(on)
        found.append(s.throughput_pps * max(loads.values()) / tsc_hz)
    return median(found)


def kept_of(alone: Sequence[tuple[AnyCosts, AnyCosts, AnyCosts]]) -> float:
    """Of all runs of single functions; what is far from 1 is no property of the machine."""
    least, most = _KEPT
    return min(most, max(least, median(costs.kept for places in alone for costs in places)))


def near_and_far(
    bench: Bench, doc: Document, experiment: Experiment, lcores: Sequence[int]
) -> tuple[Prepared, Prepared]:
    """The only function of this experiment: it sends to the measuring lcore; it is there."""
    near, far, _ = _cases(bench, doc, experiment, _ends(lcores), 0)
    return near.one, far.one


def places(
    bench: Bench, doc: Document, experiment: Experiment, settings: Settings, lcores: Sequence[int]
) -> Places:
    """Of the only function of this experiment, for its profile."""
    ends = _ends(lcores)
    three = _cases(bench, doc, experiment, ends, 0)
    rounds.measure(bench, three, _ROUNDS)
    near, far, spread = (
        PlaceCost(**{name: getattr(costs, name) for name in PlaceCost.model_fields})
        for costs in _costs(bench, ends, three)
    )
    return Places(settings=settings, near=near, far=far, spread=spread)


def nf_cost(name: str, near: AnyCosts, far: AnyCosts, spread: AnyCosts) -> NfCost:
    """One function, from what it cost in the three neighbourhoods. A replica has half of the flows;
    of what it gets half comes from its own lcore."""
    first_touch = max(0.0, far.nf - near.nf)
    return NfCost(
        name=name,
        rx=Hop(near.rx, far.rx, spread.rx),
        work=Hop(near.nf, far.nf, spread.nf),
        tx=Hop(far.tx, near.tx, spread.tx),
        loop=median((near.loop, far.loop)),
        replicated=max(0.0, spread.nf - first_touch / 2),
        poll=far.poll,
    )


_FREE = Hop(0.0, 0.0)
_KEPT = (0.5, 1.25)


@dataclass(frozen=True)
class Costs:
    """Medians of one run."""

    nf: float
    rx: float
    tx: float
    loop: float
    source: float
    source_tx: float
    sink: float
    passed: float
    poll: float  # cycles of a poll that finds packets, however many
    idle: float
    kept: float  # the throughput over what the cycles of the busiest lcore would allow
    throughput_pps: float


AnyCosts = Costs | PlaceCost


def costs_of(case: Case, kept: float) -> Costs:
    samples, slow = case.samples, case.slow
    return Costs(
        nf=median(sum(s.nfs.values()) for s in samples),
        rx=median(s.rx for s in samples),
        tx=median(s.tx for s in samples),
        loop=median(s.loop for s in samples),
        source=median(s.source for s in samples),
        source_tx=median(s.source_tx for s in samples),
        sink=median(s.sink for s in samples),
        passed=median(s.passed for s in samples),
        poll=_poll(samples, slow),
        idle=median(s.idle for s in slow),
        kept=kept,
        throughput_pps=case.throughput_pps,
    )


def _poll(samples: Sequence[Sample], slow: Sequence[Sample]) -> float:
    """Cycles per packet are a + poll / burst; here are two bursts."""
    (full, cycles), (small, further) = (
        (median(s.burst for s in several), median(s.chain for s in several))
        for several in (samples, slow)
    )
    if full <= 0 or small <= 0 or small > full * _SMALLER:
        return 0.0
    # All of the cost of a full burst at most: beyond that it is the machine that was busy.
    return min(max(0.0, (further - cycles) / (1 / small - 1 / full)), cycles * full)


def traffic_of(
    alone: Sequence[tuple[AnyCosts, AnyCosts, AnyCosts]], lcores: Sequence[int]
) -> Traffic:
    """Over all functions: source and sink do not know what is between them."""

    def over(which: int, part: str) -> float:
        return median(float(getattr(costs[which], part)) for costs in alone)

    steered = median(s.source_tx - (n.source_tx + f.source_tx) / 2 for n, f, s in alone)
    return Traffic(
        source=Hop(over(0, "source"), over(1, "source"), over(2, "source")),
        sink=Hop(over(1, "sink"), over(0, "sink"), over(2, "sink")),
        generator=lcores[0],
        measure=lcores[-1],
        steer=max(0.0, steered),
        # Source and sink are a link and a ring, as a function's segment is two.
        poll=min((costs[1].poll for costs in alone), default=0.0),
        idle=median(costs[1].idle for costs in alone),
    )


def _whole(
    bench: Bench, doc: Document, experiment: Experiment, ends: Problem
) -> tuple[Case, Case, Case]:
    """All functions on the measuring lcore: in one segment, with all flows and with half of them;
    and each in a segment of its own."""
    n, on = len(experiment.nodes), (ends.traffic.measure,)
    halved = max(1, experiment.study.workload.flows.count // 2)
    whole, half, in_turn = (
        Case(deployed(bench, doc, experiment, ends, layout, flows=flows))
        for layout, flows in (
            (Layout((n,), (on,)), None),
            (Layout((n,), (on,)), halved),
            (Layout((1,) * n, (on,) * n), None),
        )
    )
    return whole, half, in_turn


def _behind(nfs: Sequence[NfCost], in_turn: Case) -> list[NfCost]:
    """What receiving costs where a segment before has classified the packets, if one has: by what
    it costs less there than behind the source, as much less from another lcore."""
    segments = in_turn.one.placement.segments
    found = [nfs[0]]
    for nf, segment in zip(nfs[1:], segments[1:], strict=True):
        here = median(s.receive.get(segment.name, nf.rx.same) for s in in_turn.samples)
        less = max(0.0, nf.rx.same - here)
        behind = Hop(nf.rx.same - less, max(0.0, nf.rx.apart - less), nf.rx.spread)
        found.append(replace(nf, behind=behind))
    return found


def _together(
    nfs: Sequence[NfCost],
    alone: Sequence[tuple[Costs, Costs, Costs]],
    whole: Case,
    half: Case,
) -> list[NfCost]:
    """Functions of one lcore share its caches, and their tables push each other's out; and some get
    their packets changed by those before them. All of them in one segment on one lcore say what
    each costs then; with half of the flows, what it costs in one of two replicas."""
    found = []
    for i, (nf, (near, far, _)) in enumerate(zip(nfs, alone, strict=True)):
        touch = 0.0 if i and near.passed < _PASSES else max(0.0, far.nf - near.nf)
        local, replicated = (
            max(0.0, median(s.nfs[nf.name] for s in case.samples) - (0.0 if i else touch))
            for case in (whole, half)
        )
        work = Hop(local, local + touch, replicated + touch / 2)
        found.append(replace(nf, work=work, replicated=replicated))
    return found
