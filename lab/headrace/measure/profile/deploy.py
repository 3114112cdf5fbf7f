# SPDX-License-Identifier: Apache-2.0
"""A chain, or a part of it, in a given layout, ready to run."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from headrace.errors import BadInput
from headrace.measure.prepare import Prepared, prepare
from headrace.measure.profile.point import Bench, Json
from headrace.optimize.layout import Beside, Layout, Problem, Run
from headrace.spec.document import Document
from headrace.spec.study import Experiment, expand


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
