# SPDX-License-Identifier: Apache-2.0
"""What a chain's functions cost each for itself, in the two neighbourhoods that a layout can put
them in; and how fast a layout really is."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from headrace.measure.prepare import Prepared, prepare
from headrace.measure.profile import point as points
from headrace.measure.profile.point import Bench, Json, Placement, Sample
from headrace.optimize.layout import Hop, Layout, NfCost, Problem, Traffic
from headrace.spec.document import Document
from headrace.spec.study import Experiment, expand

Say = Callable[[str], None]
# Below this share a function alone does not get the packets that it is made for.
_PASSES = 0.9


def problem(
    bench: Bench, doc: Document, experiment: Experiment, lcores: Sequence[int], say: Say
) -> Problem:
    """Costs of each function alone, measured at the chain's own parameters and traffic."""
    sources: list[Hop] = []
    sinks: list[Hop] = []
    nfs: list[NfCost] = []
    for i, node in enumerate(experiment.nodes):
        one = _only(doc, experiment, [i])
        apart = _sample(bench, doc, one, "apart", wait=False)
        together = _sample(bench, doc, one, "together", wait=True)
        closed = _sample(bench, doc, one, "apart", wait=True)
        work = Hop(_nf(together), _nf(apart))
        if _median([s.passed for s in together]) < _PASSES and i > 0:
            behind = _sample(
                bench, doc, _only(doc, experiment, range(i + 1)), "together", wait=True
            )
            same = _median([s.nfs[node.name] for s in behind])
            say(f"{node.name}: drops traffic that nobody has changed; measured behind others")
            work = Hop(same, same + max(0.0, work.apart - work.same))
        tx = Hop(_median([s.tx for s in together]), _median([s.tx for s in apart]))
        nfs.append(
            NfCost(
                name=node.name,
                rx=Hop(_median([s.rx for s in together]), _median([s.rx for s in apart])),
                work=work,
                tx=tx,
                loop=_median([s.loop for s in together]),
            )
        )
        sources.append(
            Hop(_median([s.source for s in together]), _median([s.source for s in closed]))
        )
        sinks.append(Hop(_median([s.sink for s in together]), _median([s.sink for s in closed])))
        say(
            f"{node.name}: {work.same:.1f} cycles, {work.apart:.1f} on packets from another lcore; "
            f"receive {nfs[-1].rx.same:.1f} or {nfs[-1].rx.apart:.1f}, "
            f"send {tx.same:.1f} or {tx.apart:.1f}"
        )
    traffic = Traffic(
        source=Hop(_median([h.same for h in sources]), _median([h.apart for h in sources])),
        sink=Hop(_median([h.same for h in sinks]), _median([h.apart for h in sinks])),
        generator=lcores[0],
        measure=lcores[-1],
    )
    say(
        f"traffic: source {traffic.source.same:.1f} or {traffic.source.apart:.1f}, "
        f"sink {traffic.sink.same:.1f} or {traffic.sink.apart:.1f}"
    )
    return Problem(tuple(nfs), traffic, tuple(lcores), bench.tsc_hz)


def _median(values: Sequence[float]) -> float:
    return median(values)


def _nf(samples: Sequence[Sample]) -> float:
    return _median([sum(s.nfs.values()) for s in samples])


def _only(doc: Document, experiment: Experiment, indices: Sequence[int]) -> Json:
    """The study with these functions of its chain; edges to others lead on along the chain."""
    data = _base(doc, experiment)
    data["chain"] = [
        {"name": n.name, "nf": n.nf, "params": copy.deepcopy(n.params)}
        for n in (experiment.nodes[i] for i in indices)
    ]
    return data


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


def _sample(
    bench: Bench, doc: Document, data: Json, placement: Placement, wait: bool
) -> list[Sample]:
    one = points.prepare_at(bench, data, placement, str(doc.file))
    return _run(bench, one, placement, wait, bench.repetitions)


def _run(
    bench: Bench, one: Prepared, placement: Placement, wait: bool, repetitions: int
) -> list[Sample]:
    with points.running(bench, one, placement, wait) as engine:
        points.warm_up(engine, one)
        return [points.sample(engine, one, bench.seconds, one.plan) for _ in range(repetitions)]


def deployed(
    bench: Bench, doc: Document, experiment: Experiment, given: Problem, layout: Layout
) -> Prepared:
    """The whole chain in this layout."""
    data = _base(doc, experiment)
    data["chain"] = [
        {"name": n.name, "nf": n.nf, "params": copy.deepcopy(n.params), "to": dict(n.to)}
        for n in experiment.nodes
    ]
    names = [n.name for n in experiment.nodes]
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
    return median(s.throughput_pps for s in _run(bench, one, "apart", True, 3))
