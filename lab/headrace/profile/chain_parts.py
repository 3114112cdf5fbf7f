# SPDX-License-Identifier: Apache-2.0
"""A chain whose flows are divided into parts, each with a way of its own through the server: as a
port's table divides them (RETA), or a link's group of ports (LAG). Replicas of one segment are in
several caches so, on several sockets, or behind several ports.

A part is a chain with its share of the rate and of the flows; what functions hold for each flow is
divided, rules and routes are in each part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from headrace.spec.document import Document
from headrace.spec.study import Experiment
from headrace.spec.workload import Packets


def in_parts(experiments: Sequence[Experiment], doc: Document) -> list[Experiment]:
    """Each chain of several parts as so many chains."""
    return [part for one in experiments for part in _parts(one, doc)]


def parts_of(one: Experiment) -> int:
    """Says of how many parts it is one."""
    demand = one.study.demands.get(one.chain)
    return 1 if demand is None else demand.parts


def _parts(one: Experiment, doc: Document) -> Iterator[Experiment]:
    count = parts_of(one)
    if count == 1:
        yield one
        return
    at = ("demands", one.chain, "parts")
    if one.hosting.kind != "inline":
        raise doc.error(at, "of VNFs that are hosted apart; allowed: 1, and `hosting.chains`")
    workload = one.workload
    if not isinstance(workload, Packets) or workload.flows.order == "zipf":
        raise doc.error(
            at, "of flows some of which have more packets; allowed: 1 with a capture or order zipf"
        )
    if workload.flows.count < count:
        raise doc.error(at, f"of {workload.flows.count} flows; allowed: no more parts than flows")
    study, demand = one.study, one.study.demands[one.chain]
    for number in range(1, count + 1):
        name = f"{one.chain}-{number}"
        if name in study.by_name():
            raise doc.error(at, f"{name} is another chain's name; allowed: other names")
        flows = workload.flows.model_copy(
            update={"count": len(range(number - 1, workload.flows.count, count))}
        )
        share = demand.model_copy(update={"rate": demand.rate / count})
        yield replace(
            one,
            chain=name,
            study=study.model_copy(
                update={
                    "demands": {**study.demands, name: share},
                    "workload": (workload.model_copy(update={"flows": flows}),),
                }
            ),
        )
