# SPDX-License-Identifier: Apache-2.0
"""Which lcores of which server run what, where tester and chain are on servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from headrace.engine.place import Placement, Topology, apart_first, check_told, place
from headrace.spec.document import Document
from headrace.spec.study import Experiment


class Lot(Protocol):
    """A server's lcores, by the numbers that they have here."""

    name: str
    first: int
    cpus: list[int]
    topology: Topology


def place_apart(experiment: Experiment, doc: Document, tester: Lot, chain: Lot) -> Placement:
    """A spec's lcores are those of the server where they are. A tester's server of its own has an
    lcore for the source and one for the sink."""
    lcores, both = experiment.study.deployment.lcores, {tester.name: tester, chain.name: chain}
    here = {name: [cpu - one.first for cpu in one.cpus] for name, one in both.items()}
    check_told(lcores.model_copy(update={"chain": None}), doc, here[tester.name], tester.name)
    check_told(lcores.model_copy(update={"traffic": None}), doc, here[chain.name], chain.name)
    traffic = _shifted(lcores.traffic, tester)
    if traffic is None and tester is not chain:
        first, *others = tester.cpus
        traffic = (first, *apart_first(others, [first], tester.topology)[:1])
    told = lcores.model_copy(update={"traffic": traffic, "chain": _shifted(lcores.chain, chain)})
    execution = experiment.execution
    if execution.lcores is not None:
        own = tuple(
            tuple(cpu + chain.first if isinstance(cpu, int) else cpu for cpu in cpus)
            for cpus in execution.lcores
        )
        beside = _shifted(execution.beside, chain)
        execution = execution.model_copy(update={"lcores": own, "beside": beside})
    study = experiment.study
    study = study.model_copy(
        update={"deployment": study.deployment.model_copy(update={"lcores": told})}
    )
    # The tester's other lcores are none of the chain's.
    available = list(dict.fromkeys((*(traffic or ()), *chain.cpus)))
    return place(
        replace(experiment, study=study, execution=execution), doc, available, _together(both)
    )


def _shifted(cpus: tuple[int, ...] | None, on: Lot) -> tuple[int, ...] | None:
    return cpus and tuple(cpu + on.first for cpu in cpus)


def _together(lots: Mapping[str, Lot]) -> Topology:
    """NUMA nodes that a spec names are the chain's, which is the last."""
    *_, last = lots.values()

    def of(cpu: int) -> Lot:
        return next(one for one in lots.values() if cpu in one.cpus)

    def node(cpu: int) -> int:
        own = of(cpu).topology.node(cpu)
        return own if of(cpu) is last else -1 - own

    return Topology(lambda cpu: of(cpu).topology.threads(cpu), node)
