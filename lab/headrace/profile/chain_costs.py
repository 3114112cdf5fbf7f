# SPDX-License-Identifier: Apache-2.0
"""What a chain's functions cost each for itself, in the neighbourhoods that a layout can put them
in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from statistics import median

from headrace.engine.resteering import resteering
from headrace.errors import HeadraceError
from headrace.ground.inline import EnginePoint
from headrace.layout.layout import Hop, Layout, Lcores, NfCost, Problem, Traffic
from headrace.profile import bursts, pricing, rounds, taken
from headrace.profile import point as points
from headrace.profile.layout_point import deployed
from headrace.profile.point import Bench, PointSample
from headrace.profile.rounds import Case
from headrace.profile.verified import ReferenceRun
from headrace.spec.document import Document
from headrace.spec.profile import PlaceCost, Places, Settings
from headrace.spec.study import Experiment

Say = Callable[[str], None]
# Fewer packets than these at the chain's end are no throughput to plan for.
_DELIVERED_LEAST = 0.01
_ALL = 0.001
# At these parts of the load a poll that finds packets finds few more than one; and several.
_LESS = (0.1, 0.5)
# At a part of the load bursts must really be smaller to show what a poll costs once.
_SMALLER = 0.7
# Twice, all of it between: what is added up was then measured at the same pace.
_ROUNDS = 2
# Trials of each start of the reference: what one of them is off, all layouts' errors are.
_OF_REFERENCE = 3


# The three neighbourhoods in which each function is measured for its profile; traffic is made on
# the first lcore and measured on the last, as in every layout, so that packets' buffers travel the
# same way.
def _neighbourhoods(lcores: Sequence[int]) -> tuple[Layout, Layout, Layout]:
    first, last = lcores[0], lcores[-1]
    near = Layout((1,), ((first,),))  # packets from its own lcore, to another
    far = Layout((1,), ((last,),))  # from another lcore, to its own
    return near, far, Layout((1,), ((first, last),))


@dataclass(frozen=True)
class Priced:
    """Costs; `reference`: all functions in one segment on the measuring lcore, None where it was
    run in another state of the machine than they were taken in, and so tells no pace of theirs.
    `taken`: the layouts that were run in that state to take them."""

    problem: Problem
    reference: ReferenceRun | None
    taken: frozenset[Layout]


def problem(
    bench: Bench,
    doc: Document,
    experiment: Experiment,
    lcores: Sequence[int],
    say: Say,
    for_latency: bool = False,
) -> Priced:
    """Costs of each function in every place, out of runs of the whole chain on the first and the
    last lcore, with its own parameters and traffic; for latency, with small bursts as well."""
    ends, names = unpriced(lcores), [node.name for node in experiment.nodes]
    layouts = pricing.layouts(len(names), lcores)
    halved = max(1, experiment.flows // 2)
    cases = {
        name: Case(
            deployed(
                bench, doc, experiment, ends, layout, flows=halved if name == "half" else None
            ),
            less=_LESS if for_latency else (),
            least=_OF_REFERENCE if name == "whole" else 1,
        )
        for name, layout in layouts.items()
    }
    rounds.measure(bench, list(cases.values()), _ROUNDS)
    away = {name for name, case in cases.items() if case.few(bench.lines, 1)}
    runs = {
        name: replace(taken.run(case.samples, layouts[name], names), away=name in away)
        for name, case in cases.items()
    }
    whole = cases["whole"]
    edges = taken.edges(whole.samples, experiment, bench.description)
    resteers = resteering(experiment, bench.description)
    priced = pricing.price(names, runs, edges, lcores, bench.tsc_hz, resteers)
    if for_latency:
        priced = _with_small_bursts(priced, cases, layouts, away)
    _check_delivered(experiment, priced)
    _tell(priced, say)
    reference = None
    if "whole" not in away:
        reference = ReferenceRun(
            f"all functions in one segment on lcore {ends.traffic.measure}",
            whole.one,
            whole.throughput_pps,
            points.speed(whole.samples, bench.tsc_hz),
            layouts["whole"],
        )
    of_state = (layouts[name] for name in layouts if name not in away | {"half"})
    return Priced(priced, reference, frozenset(of_state))


def _check_delivered(experiment: Experiment, priced: Problem) -> None:
    if priced.delivered < _DELIVERED_LEAST:
        raise HeadraceError(
            f"plan: cannot predict: of {experiment.chain}'s packets {priced.delivered:.2%} come "
            f"out at its end; allowed: at least {_DELIVERED_LEAST:.0%}, as a throughput is of those"
        )


def _with_small_bursts(
    priced: Problem,
    cases: Mapping[pricing.Run, Case],
    layouts: Mapping[pricing.Run, Layout],
    away: Set[pricing.Run],
) -> Problem:
    """The same places, where a poll finds a packet, and where it finds several."""
    names = [nf.name for nf in priced.nfs]
    several: dict[pricing.Run, list[pricing.Taken]] = {
        name: [
            replace(taken.run(samples, layouts[name], names), away=name in away)
            for samples in (*(case.partial[less] for less in sorted(case.less)), case.samples)
        ]
        for name, case in cases.items()
        if name != "half"
    }
    at_bursts = {
        n: pricing.price(
            names,
            {name: bursts.at_burst(runs, n) for name, runs in several.items()},
            priced.edges,
            priced.lcores,
            priced.tsc_hz,
            {nf.name for nf in priced.nfs if nf.resteers},
        )
        for n in bursts.BURSTS
    }
    last: pricing.Run = "in turn" if "in turn" in several else "whole"
    small, *_, full = several[last]
    once = [
        _poll_cost(a.burst, a.cycles, b.burst, b.cycles)
        for [a], [b] in zip(full.stages, small.stages, strict=True)
    ]
    nfs = tuple(replace(nf, poll=poll) for nf, poll in zip(priced.nfs, once[1:-1], strict=True))
    slow = [sample for case in cases.values() for sample in case.slow]
    traffic = replace(priced.traffic, poll=min(once), idle=median(s.idle for s in slow))
    gaps = points.interruptions(slow, priced.tsc_hz)
    return replace(priced, nfs=nfs, at_bursts=at_bursts, traffic=traffic, gaps=gaps)


def _tell(priced: Problem, say: Say) -> None:
    for nf, visits in zip(priced.nfs, priced.visits, strict=True):
        of_all = "" if abs(visits - 1) < _ALL else f"; it gets {visits:.1%} of the packets"
        several = "" if nf.replicated is None else f", {nf.replicated:.1f} as one of two"
        say(
            f"{nf.name}: {nf.work.same:.1f} cycles, {nf.work.apart:.1f} on packets from another "
            f"lcore{several}; receive {_pair(nf.rx)}, send {_pair(nf.tx)}; "
            f"a poll {nf.poll:.0f}{of_all}"
        )
    traffic = priced.traffic
    say(f"traffic: source {_pair(traffic.source)}, sink {_pair(traffic.sink)}")
    say(f"what these cycles leave out, by those runs: {1 - priced.kept:.1%} of the throughput")


def _pair(hop: Hop) -> str:
    return f"{hop.same:.1f} or {hop.apart:.1f}"


def unpriced(lcores: Sequence[int]) -> Problem:
    """Says where traffic is made and measured; nothing has a cost yet."""
    return Problem((), Traffic(_FREE, _FREE, lcores[0], lcores[-1]), tuple(lcores), 0.0)


def _cases(
    bench: Bench, doc: Document, experiment: Experiment, ends: Problem, i: int
) -> tuple[Case, Case, Case]:
    """The cases of one function: near, far, spread."""
    near, far, spread = (
        Case(deployed(bench, doc, experiment, ends, layout, [i]))
        for layout in _neighbourhoods(ends.lcores)
    )
    return near, far, spread


def _costs(
    bench: Bench, ends: Problem, three: tuple[Case, Case, Case]
) -> tuple[PlaceCost, PlaceCost, PlaceCost]:
    near, far, spread = (
        costs_of(case, _kept(case.samples, ends, layout.lcores[0], bench.tsc_hz))
        for case, layout in zip(three, _neighbourhoods(ends.lcores), strict=True)
    )
    return near, far, spread


def _kept(samples: Sequence[PointSample], ends: Problem, on: Lcores, tsc_hz: float) -> float:
    """The throughput over what the cycles of its busiest lcore would allow."""
    shares = []
    for s in samples:
        loads = dict.fromkeys((ends.traffic.generator, ends.traffic.measure, *on), 0.0)
        loads[ends.traffic.generator] += s.source
        loads[ends.traffic.measure] += s.sink
        for cpu in on:
            loads[cpu] += s.chain / len(on)
        shares.append(s.throughput_pps * max(loads.values()) / tsc_hz)
    return median(shares)


def kept_of(alone: Sequence[tuple[PlaceCost, PlaceCost, PlaceCost]]) -> float:
    """All runs of single functions together; far from 1 they are of no machine that could have
    carried what is predicted from them."""
    kept = median(costs.kept for places in alone for costs in places)
    least, most = _KEPT
    if not least <= kept <= most:
        raise HeadraceError(
            f"plan: the profiles' runs carried {kept:.2f} times what their cycles allow; allowed: "
            f"{least:g} to {most:g}; measure them again by `headrace profile`"
        )
    return kept


def near_and_far(
    bench: Bench, doc: Document, experiment: Experiment, lcores: Sequence[int]
) -> tuple[EnginePoint, EnginePoint]:
    """The only function of this experiment: it sends to the measuring lcore; it is there."""
    near, far, _ = _cases(bench, doc, experiment, unpriced(lcores), 0)
    return near.one, far.one


def as_replicas(bench: Bench, doc: Document, experiment: Experiment) -> EnginePoint:
    """The only function of this experiment on both lcores."""
    ends = unpriced(bench.lcores)
    return deployed(bench, doc, experiment, ends, _neighbourhoods(ends.lcores)[2], [0])


def places(
    bench: Bench, doc: Document, experiment: Experiment, settings: Settings, lcores: Sequence[int]
) -> Places:
    """Costs at each place of the only function of this experiment, for its profile."""
    ends = unpriced(lcores)
    three = _cases(bench, doc, experiment, ends, 0)
    rounds.measure(bench, three, _ROUNDS)
    near, far, spread = _costs(bench, ends, three)
    line = bench.line_cycles(lcores)
    return Places(settings=settings, near=near, far=far, spread=spread, line_cycles=line)


def nf_cost(name: str, near: PlaceCost, far: PlaceCost, spread: PlaceCost) -> NfCost:
    """One function, from what it cost in the three neighbourhoods. A replica has half of the flows;
    of what it gets half comes from its own lcore."""
    first_touch = max(0.0, far.nf - near.nf)
    return NfCost(
        name=name,
        rx=Hop(near.rx, far.rx, _both(spread.rx, far.rx - near.rx)),
        work=Hop(near.nf, far.nf, _both(spread.nf, first_touch)),
        tx=Hop(far.tx, near.tx, (spread.tx, spread.tx)),
        loop=median((near.loop, far.loop)),
        replicated=_both(spread.nf, first_touch)[0],
        poll=far.poll,
    )


def _both(mean: float, further: float) -> tuple[float, float]:
    """Means for packets from the same lcore, and for those from another: there are as many."""
    return max(0.0, mean - further / 2), max(0.0, mean + further / 2)


_FREE = Hop(0.0, 0.0)
_KEPT = (0.5, 1.25)


def costs_of(case: Case, kept: float) -> PlaceCost:
    samples, slow = case.samples, case.slow
    return PlaceCost(
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


def _poll(samples: Sequence[PointSample], slow: Sequence[PointSample]) -> float:
    (full, cycles), (small, further) = (
        (median(s.burst for s in several), median(s.chain for s in several))
        for several in (samples, slow)
    )
    return _poll_cost(full, cycles, small, further)


def _poll_cost(full: float, cycles: float, small: float, further: float) -> float:
    """Cycles per packet are a + poll / burst; here are two bursts."""
    if full <= 0 or small <= 0 or small > full * _SMALLER:
        return 0.0
    # All of the cost of a full burst at most: beyond that it is the machine that was busy.
    return min(max(0.0, (further - cycles) / (1 / small - 1 / full)), cycles * full)


def traffic_of(
    alone: Sequence[tuple[PlaceCost, PlaceCost, PlaceCost]], lcores: Sequence[int]
) -> Traffic:
    """Over all functions: source and sink do not know what is between them."""

    def over(which: int, part: str) -> float:
        return median(float(getattr(costs[which], part)) for costs in alone)

    steered = median(s.source_tx - (n.source_tx + f.source_tx) / 2 for n, f, s in alone)
    return Traffic(
        source=Hop(over(0, "source"), over(1, "source"), (over(2, "source"),) * 2),
        sink=Hop(over(1, "sink"), over(0, "sink"), (over(2, "sink"),) * 2),
        generator=lcores[0],
        measure=lcores[-1],
        steer=max(0.0, steered),
        # Source and sink are a link and a ring, as a function's segment is two.
        poll=min((costs[1].poll for costs in alone), default=0.0),
        idle=median(costs[1].idle for costs in alone),
    )
