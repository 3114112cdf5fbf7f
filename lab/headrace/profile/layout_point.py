# SPDX-License-Identifier: Apache-2.0
"""A chain, or a part of it, in a given layout, ready to run."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from headrace.engine.describe import Description, with_absolute_files
from headrace.errors import BadInput
from headrace.ground.inline import EnginePoint
from headrace.layout.layout import Beside, Layout, Problem, Run
from headrace.profile.point import WAITING_RING, Bench, Json
from headrace.spec.document import Document
from headrace.spec.study import Experiment, expand

# Locating packets, however few, begins with buffers in no order, as those of a pool in use lie. A
# new pool's lie one behind the other, which prefetchers follow: source and functions are then
# faster until replicas have mixed them, and layouts with replicas look slower than they are.
_SHUFFLED = 1_000_000_000
_NAME_MAX = 60  # of an execution's
# More than lie in an lcore's own part of the pool, and in its bursts.
_HOT_EACH = 2048


def deployed(
    bench: Bench,
    doc: Document,
    experiment: Experiment,
    given: Problem,
    layout: Layout,
    only: Sequence[int] | None = None,
    flows: int | None = None,
) -> EnginePoint:
    """The chain, or `only` these functions of it, in this layout; with as many flows."""
    nodes = [experiment.nodes[i] for i in only] if only is not None else list(experiment.nodes)
    whole = len(nodes) == len(experiment.nodes)
    data = _base(doc, experiment, len(_all_lcores(given)))
    data["chain"] = [
        {"name": n.name, "nf": n.nf, "params": copy.deepcopy(n.params)}
        # Edges to functions that are not there lead on along the chain.
        | ({"to": dict(n.to)} if whole else {})
        for n in nodes
    ]
    names = [n.name for n in nodes]
    data["deployment"] |= placed(given, layout, names)
    if flows is not None and data["workload"].get("pcap") is None:
        given_flows = data["workload"].get("flows")
        others = given_flows if isinstance(given_flows, dict) else {}
        data["workload"]["flows"] = {**others, "count": flows}
    altered = replace(doc, data=data, root=None)
    [one] = expand(altered)
    return _with_equal_pools(bench.points(one, altered), len(experiment.nodes))


def _with_equal_pools(prepared: EnginePoint, nfs: int) -> EnginePoint:
    """As many buffers in each layout as a ring before each function would ask for: pools of other
    sizes lie on other pages, and those of some cost half as much again on a virtual machine."""
    deployment = prepared.experiment.study.deployment
    if deployment.mbufs is not None:
        return prepared
    plan, more = prepared.plan, max(0, nfs + 1 - len(prepared.plan.rings))
    mbufs = (plan.engine.mbufs or 0) + more * deployment.ring.size
    return replace(prepared, plan=plan.having(engine=plan.engine.having(mbufs=mbufs)))


def placed(given: Problem, layout: Layout, names: Sequence[str]) -> Json:
    """A spec's `execution` and `lcores`."""
    execution: Json = {
        "name": layout.text(names)[:_NAME_MAX],
        "segments": [list(group) for group in layout.groups(names)],
        "lcores": [list(on) for on in layout.lcores],
    }
    if layout.beside is not None:
        run = layout.beside.run
        execution["parallel"] = list(names[run.first : run.first + run.size])
        execution["beside"] = list(layout.beside.lcores)
    traffic = list(dict.fromkeys((given.traffic.generator, given.traffic.measure)))
    return {"execution": execution, "lcores": {"traffic": traffic, "shared": True}}


def _all_lcores(given: Problem) -> set[int]:
    return {*given.lcores, given.traffic.generator, given.traffic.measure}


def as_spec(
    doc: Document,
    experiment: Experiment,
    given: Problem,
    layout: Layout,
    description: Description,
) -> Json:
    """The spec with this layout in place of its executions. What it says else stays; its files are
    named from the root, so that it can be stored anywhere."""
    data: Json = copy.deepcopy(doc.data)
    data.pop("chains", None)
    nodes = experiment.nodes
    data["chain"] = [
        {
            "name": n.name,
            "nf": n.nf,
            "params": with_absolute_files(description.nfs[n.nf]["params"], n.params, doc),
        }
        | ({"to": dict(n.to)} if n.to else {})
        for n in nodes
    ]
    names = [n.name for n in nodes]
    deployment = dict(data.get("deployment") or {})
    ring = experiment.study.deployment.ring
    data["deployment"] = {
        "mbufs_hot": hot_buffers(len(_all_lcores(given))),
        **deployment,
        **placed(given, layout, names),
        "ring": {"size": min(ring.size, WAITING_RING), "on_full": "wait"},
        "wire": WAITING_RING,
        "wire_on_full": "wait",
        "locate": _SHUFFLED,
    }
    data["measure"] = _at_most(data.get("measure"))
    workload = dict(data.get("workload") or {})
    for key in ("dst_ips_file", "tuples_file", "pcap"):
        if workload.get(key) is not None:
            workload[key] = str(doc.resolve(workload[key]))
    return {**data, "workload": workload}


def _at_most(measure: Any) -> Json:
    """As fast as rings that wait let it: what is predicted, and what plan --verify measures. A
    search by loss would find what these lcores' pauses cost, and a flood that is thrown away would
    cost the chain its time where the traffic's lcores run it, too."""
    given = measure if isinstance(measure, dict) else {}
    return {"max": True, **{key: given[key] for key in ("trial", "losses") if key in given}}


def told(experiment: Experiment, given: Problem) -> Layout | None:
    """The layout that the spec asks for, where it names the lcores of each segment and they are
    among those that are planned for."""
    execution = experiment.execution
    lcores = execution.numbered
    if execution.segments is None or lcores is None or execution.parallel or execution.elastic:
        return None
    if not {cpu for on in lcores for cpu in on} <= set(given.lcores):
        return None
    return Layout(
        tuple(len(names) for names in execution.segments),
        tuple(tuple(sorted(on)) for on in lcores),
    )


def hot_buffers(lcores: int) -> int:
    """How many go round where queues are short. An eighth of the last-level cache, the default,
    may be memory to a virtual machine that has a part of it only: making a packet of 1518 B then
    cost 900 to 1700 cycles, by where its table and rings lay, and 280 to 500 of so few buffers."""
    return _HOT_EACH * lcores


def _base(doc: Document, experiment: Experiment, lcores: int) -> Json:
    data: Json = copy.deepcopy(doc.data)
    for key in ("chains", "measure", "sweep", "repetitions", "warmup", "collect"):
        data.pop(key, None)
    data["deployment"] = {**(data.get("deployment") or {}), "execution": "rtc", "locate": _SHUFFLED}
    data["deployment"].pop("lcores", None)
    data["deployment"].setdefault("mbufs_hot", hot_buffers(lcores))
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
    runs: list[Run] = []
    for first in range(n):
        for size in range(2, n - first + 1):
            run = Run(first, size)
            on = tuple(others[i % len(others)] for i in range(size - 1))
            try:
                deployed(bench, doc, experiment, given, replace(whole, beside=Beside(run, on)))
            except BadInput:
                break  # every pair must agree: more of them cannot
            runs.append(run)
    return tuple(runs)
