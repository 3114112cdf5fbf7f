# SPDX-License-Identifier: Apache-2.0
"""What a chain's functions cost each for itself, in the neighbourhoods that a layout can put them
in; and how fast a layout really is."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from headrace.errors import BadInput
from headrace.measure import trial as trials
from headrace.measure.latency import latency
from headrace.measure.prepare import Prepared, prepare
from headrace.measure.profile import point as points
from headrace.measure.profile.point import Bench, Json, Sample
from headrace.optimize.layout import Beside, Hop, Layout, Lcores, NfCost, Problem, Run, Traffic
from headrace.spec.document import Document
from headrace.spec.profile import PlaceCost, Places, Settings
from headrace.spec.study import Experiment, expand
from headrace.testbed.engine import Engine
from headrace.testbed.plan import paths

Say = Callable[[str], None]
# Below this share a function alone does not get the packets that it is made for.
_PASSES = 0.9
# What a poll costs once shows where there is a quarter of the load; bursts must really be smaller.
_SLOW, _SMALLER = 0.25, 0.7
_SLOW_TRIALS = 2
_VERIFIED = 3  # trials of a verified layout
_DRAIN_S = 0.05


# The three neighbourhoods in which each function is measured; traffic is made on the first lcore
# and measured on the last, as in every layout, so that packets' buffers travel the same way.
def _neighbourhoods(lcores: Sequence[int]) -> tuple[Layout, Layout, Layout]:
    first, last = lcores[0], lcores[-1]
    near = Layout((1,), ((first,),))  # packets from its own lcore, to another
    far = Layout((1,), ((last,),))  # from another lcore, to its own
    return near, far, Layout((1,), ((first, last),))


def problem(
    bench: Bench, doc: Document, experiment: Experiment, lcores: Sequence[int], say: Say
) -> Problem:
    """Costs of each function alone, measured at the chain's own parameters and traffic."""
    ends = Problem((), Traffic(_FREE, _FREE, lcores[0], lcores[-1]), tuple(lcores), 0.0)
    nfs: list[NfCost] = []
    alone: list[tuple[Costs, Costs, Costs]] = []
    for i, node in enumerate(experiment.nodes):
        near, far, spread = neighbourhoods(bench, doc, experiment, ends, i)
        nfs.append(nf_cost(node.name, near, far, spread))
        alone.append((near, far, spread))
        if near.passed < _PASSES and i > 0:
            say(f"{node.name}: drops traffic that nobody has changed; measured behind others")
    if len(nfs) > 1:
        nfs = _together(bench, doc, experiment, ends, nfs, alone)
    for nf in nfs:
        say(
            f"{nf.name}: {nf.work.same:.1f} cycles, {nf.work.apart:.1f} on packets from another "
            f"lcore; receive {nf.rx.same:.1f} or {nf.rx.apart:.1f}, send {nf.tx.same:.1f} or "
            f"{nf.tx.apart:.1f}; a poll {nf.poll:.0f}"
        )
    traffic = traffic_of(alone, lcores)
    say(
        f"traffic: source {traffic.source.same:.1f} or {traffic.source.apart:.1f}, "
        f"sink {traffic.sink.same:.1f} or {traffic.sink.apart:.1f}"
    )
    kept = kept_of(alone)
    say(f"what these cycles leave out, by the functions alone: {1 - kept:.1%} of the throughput")
    return Problem(tuple(nfs), traffic, tuple(lcores), bench.tsc_hz, kept=kept)


def neighbourhoods(
    bench: Bench, doc: Document, experiment: Experiment, ends: Problem, i: int
) -> tuple[Costs, Costs, Costs]:
    """Of one function: near, far, spread."""
    near, far, spread = (
        _neighbourhood(bench, doc, experiment, ends, layout, i)
        for layout in _neighbourhoods(ends.lcores)
    )
    return near, far, spread


def _neighbourhood(
    bench: Bench, doc: Document, experiment: Experiment, ends: Problem, layout: Layout, i: int
) -> Costs:
    samples, slow = _run(bench, deployed(bench, doc, experiment, ends, layout, [i]))
    return costs_of(samples, slow, _kept(samples, ends, layout.lcores[0], bench.tsc_hz))


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


def places(
    bench: Bench, doc: Document, experiment: Experiment, settings: Settings, lcores: Sequence[int]
) -> Places:
    """Of the only function of this experiment, for its profile."""
    ends = Problem((), Traffic(_FREE, _FREE, lcores[0], lcores[-1]), tuple(lcores), 0.0)
    near, far, spread = (
        PlaceCost(**{name: getattr(costs, name) for name in PlaceCost.model_fields})
        for costs in neighbourhoods(bench, doc, experiment, ends, 0)
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
    by_name: dict[str, float]
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


AnyCosts = Costs | PlaceCost


def costs_of(samples: Sequence[Sample], slow: Sequence[Sample], kept: float) -> Costs:
    """`slow`: at a part of the rate, where bursts are small."""
    return Costs(
        nf=median(sum(s.nfs.values()) for s in samples),
        by_name={name: median(s.nfs[name] for s in samples) for name in samples[0].nfs},
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


def _together(
    bench: Bench,
    doc: Document,
    experiment: Experiment,
    ends: Problem,
    nfs: Sequence[NfCost],
    alone: Sequence[tuple[Costs, Costs, Costs]],
) -> list[NfCost]:
    """Functions of one lcore share its caches, and their tables push each other's out; and some get
    their packets changed by those before them. All of them in one segment on one lcore say what
    each costs then; with half of the flows, what it costs in one of two replicas."""
    layout = Layout((len(nfs),), ((ends.traffic.measure,),))
    whole, _ = _run(bench, deployed(bench, doc, experiment, ends, layout))
    flows = max(1, experiment.study.workload.flows.count // 2)
    half, _ = _run(bench, deployed(bench, doc, experiment, ends, layout, flows=flows))
    found = []
    for i, (nf, (near, far, _)) in enumerate(zip(nfs, alone, strict=True)):
        touch = 0.0 if i and near.passed < _PASSES else max(0.0, far.nf - near.nf)
        local, replicated = (
            max(0.0, median(s.nfs[nf.name] for s in samples) - (0.0 if i else touch))
            for samples in (whole, half)
        )
        work = Hop(local, local + touch, replicated + touch / 2)
        found.append(replace(nf, work=work, replicated=replicated))
    return found


def _base(doc: Document, experiment: Experiment) -> Json:
    data: Json = copy.deepcopy(doc.data)
    for key in ("chains", "measure", "sweep", "repetitions", "warmup", "collect"):
        data.pop(key, None)
    data["deployment"] = {**(data.get("deployment") or {}), "execution": "rtc", "locate": 0}
    data["deployment"].pop("lcores", None)
    sizes = experiment.frame.sizes
    workload: dict[str, Any] = dict(data.get("workload") or {})
    if workload.get("pcap") is None and len(sizes) == 1:
        workload["frame"] = sizes[0]
    data["workload"] = workload
    return data


def _run(bench: Bench, one: Prepared) -> tuple[list[Sample], list[Sample]]:
    """At full load, and at a part of it. Rings wait: the slowest lcore sets the rate of all, and
    nothing is thrown away."""
    with points.running(bench, one, "apart", wait=True) as engine:
        points.warm_up(engine, one)

        def trials_at(rate: float, count: int) -> list[Sample]:
            return [points.sample(engine, one, bench.seconds, one.plan, rate) for _ in range(count)]

        samples = trials_at(0.0, bench.repetitions)
        rate = _SLOW * median(s.throughput_pps for s in samples)
        return samples, trials_at(rate, min(_SLOW_TRIALS, bench.repetitions))


def deployed(
    bench: Bench,
    doc: Document,
    experiment: Experiment,
    given: Problem,
    layout: Layout,
    only: Sequence[int] | None = None,
    flows: int | None = None,
) -> Prepared:
    """The chain, or `only` these functions of it, in this layout; with as many flows."""
    nodes = [experiment.nodes[i] for i in only] if only is not None else list(experiment.nodes)
    whole = len(nodes) == len(experiment.nodes)
    data = _base(doc, experiment)
    data["chain"] = [
        {"name": n.name, "nf": n.nf, "params": copy.deepcopy(n.params)}
        # Edges to functions that are not there lead on along the chain.
        | ({"to": dict(n.to)} if whole else {})
        for n in nodes
    ]
    names = [n.name for n in nodes]
    data["deployment"]["execution"] = {
        "segments": [list(group) for group in layout.groups(names)],
        "lcores": [list(on) for on in layout.lcores],
    }
    if layout.beside is not None:
        run = layout.beside.run
        data["deployment"]["execution"] |= {
            "parallel": names[run.first : run.first + run.size],
            "beside": list(layout.beside.lcores),
        }
    if flows is not None and data["workload"].get("pcap") is None:
        given_flows = data["workload"].get("flows")
        others = given_flows if isinstance(given_flows, dict) else {}
        data["workload"]["flows"] = {**others, "count": flows}
    traffic = [given.traffic.generator, given.traffic.measure]
    data["deployment"]["lcores"] = {"traffic": list(dict.fromkeys(traffic)), "shared": True}
    made = Document(doc.file, data, None, doc.inputs)
    [one] = expand(made)
    [prepared] = prepare([one], made, bench.description)
    return prepared


def side_by_side(
    bench: Bench, doc: Document, experiment: Experiment, given: Problem
) -> tuple[Run, ...]:
    """Neighbours that may work on a packet at the same time: the engine judges, from what its
    functions declare (docs/design/parallel.md)."""
    n, [lead, *others] = len(experiment.nodes), given.lcores
    whole = Layout((n,), ((lead,),))
    deployed(bench, doc, experiment, given, whole)  # what is wrong without is not for us to judge
    found: list[Run] = []
    for first in range(n):
        for size in range(2, n - first + 1):
            run = Run(first, size)
            on = tuple(others[i % len(others)] for i in range(size - 1))
            try:
                deployed(bench, doc, experiment, given, replace(whole, beside=Beside(run, on)))
            except BadInput:
                break  # every pair must agree: more of them cannot
            found.append(run)
    return tuple(found)


@dataclass(frozen=True)
class Verified:
    throughput_pps: float
    latency_s: float | None  # median, at the load that was asked for


def measured(bench: Bench, one: Prepared, rate_pps: float | None = None) -> Verified:
    """Of one run, the slowest lcore setting the rate of all; and the latency at a load."""
    with points.running(bench, one, "apart", wait=True) as engine:
        points.warm_up(engine, one)
        rates = [
            points.sample(engine, one, bench.seconds, one.plan).throughput_pps
            for _ in range(_VERIFIED)
        ]
        latency = None if rate_pps is None else _latency_s(engine, one, rate_pps, bench.seconds)
    return Verified(median(rates), latency)


def _latency_s(engine: Engine, one: Prepared, rate_pps: float, seconds: float) -> float | None:
    [way] = paths(one.experiment)
    reading = trials.run(engine, [way], rate_pps, seconds, _DRAIN_S)
    found = latency(reading.after["links"][way.sink].get("latency") or {})
    return None if found is None else found.p50 / 1e9
