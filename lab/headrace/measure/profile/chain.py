# SPDX-License-Identifier: Apache-2.0
"""What a chain's functions cost each for itself, in the neighbourhoods that a layout can put them
in; and how fast a layout really is."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from headrace.measure.prepare import Prepared, prepare
from headrace.measure.profile import point as points
from headrace.measure.profile.point import Bench, Json, Sample
from headrace.optimize.layout import Hop, Layout, NfCost, Problem, Traffic
from headrace.spec.document import Document
from headrace.spec.study import Experiment, expand

Say = Callable[[str], None]
# Below this share a function alone does not get the packets that it is made for.
_PASSES = 0.9


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
    alone: list[tuple[_Costs, _Costs, _Costs]] = []
    for i, node in enumerate(experiment.nodes):
        near, far, spread = (
            _costs(_run(bench, deployed(bench, doc, experiment, ends, layout, [i])))
            for layout in _neighbourhoods(lcores)
        )
        work = Hop(near.nf, far.nf, spread.nf)
        if near.passed < _PASSES and i > 0:
            work = _behind(bench, doc, experiment, ends, i, work)
            say(f"{node.name}: drops traffic that nobody has changed; measured behind others")
        nfs.append(
            NfCost(
                name=node.name,
                rx=Hop(near.rx, far.rx, spread.rx),
                work=work,
                tx=Hop(far.tx, near.tx, spread.tx),
                loop=median((near.loop, far.loop)),
            )
        )
        alone.append((near, far, spread))
        say(
            f"{node.name}: {work.same:.1f} cycles, {work.apart:.1f} on packets from another lcore; "
            f"receive {near.rx:.1f} or {far.rx:.1f}, send {far.tx:.1f} or {near.tx:.1f}"
        )
    traffic = _traffic(alone, lcores)
    say(
        f"traffic: source {traffic.source.same:.1f} or {traffic.source.apart:.1f}, "
        f"sink {traffic.sink.same:.1f} or {traffic.sink.apart:.1f}"
    )
    return Problem(tuple(nfs), traffic, tuple(lcores), bench.tsc_hz)


_FREE = Hop(0.0, 0.0)


@dataclass(frozen=True)
class _Costs:
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


def _costs(samples: Sequence[Sample]) -> _Costs:
    return _Costs(
        nf=median(sum(s.nfs.values()) for s in samples),
        by_name={name: median(s.nfs[name] for s in samples) for name in samples[0].nfs},
        rx=median(s.rx for s in samples),
        tx=median(s.tx for s in samples),
        loop=median(s.loop for s in samples),
        source=median(s.source for s in samples),
        source_tx=median(s.source_tx for s in samples),
        sink=median(s.sink for s in samples),
        passed=median(s.passed for s in samples),
    )


def _traffic(alone: Sequence[tuple[_Costs, _Costs, _Costs]], lcores: Sequence[int]) -> Traffic:
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
    )


def _behind(
    bench: Bench, doc: Document, experiment: Experiment, ends: Problem, i: int, work: Hop
) -> Hop:
    """Its work on packets that the functions before it have changed, in one segment with them."""
    layout = Layout((i + 1,), ((ends.traffic.measure,),))
    one = deployed(bench, doc, experiment, ends, layout, range(i + 1))
    same = _costs(_run(bench, one)).by_name[experiment.nodes[i].name]
    further = max(0.0, work.apart - work.same)
    return Hop(same, same + further, same + further / 2)


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


def _run(bench: Bench, one: Prepared, repetitions: int | None = None) -> list[Sample]:
    """Rings wait: the slowest lcore sets the rate of all, and nothing is thrown away."""
    with points.running(bench, one, "apart", wait=True) as engine:
        points.warm_up(engine, one)
        count = repetitions or bench.repetitions
        return [points.sample(engine, one, bench.seconds, one.plan) for _ in range(count)]


def deployed(
    bench: Bench,
    doc: Document,
    experiment: Experiment,
    given: Problem,
    layout: Layout,
    only: Sequence[int] | None = None,
) -> Prepared:
    """The chain, or `only` these functions of it, in this layout."""
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
    traffic = [given.traffic.generator, given.traffic.measure]
    data["deployment"]["lcores"] = {"traffic": list(dict.fromkeys(traffic)), "shared": True}
    made = Document(doc.file, data, None, doc.inputs)
    [one] = expand(made)
    [prepared] = prepare([one], made, bench.description)
    return prepared


def measured(bench: Bench, one: Prepared) -> float:
    """Packets/s of one run, the slowest lcore setting the rate of all."""
    return median(s.throughput_pps for s in _run(bench, one, 3))
