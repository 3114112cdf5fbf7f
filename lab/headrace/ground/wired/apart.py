# SPDX-License-Identifier: Apache-2.0
"""Which lcores of which server run what, where tester and chain are on servers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle, islice
from typing import Protocol

from headrace.engine.place import Placement, Topology, apart_first, check_told, groups_of, place
from headrace.spec.deployment import Execution
from headrace.spec.document import Document
from headrace.spec.study import Experiment, Study


class Lot(Protocol):
    """A server's lcores, by the numbers that they have here."""

    name: str
    first: int
    cpus: list[int]
    topology: Topology


def place_apart(
    experiment: Experiment, doc: Document, tester: Lot, chain: Sequence[Lot]
) -> Placement:
    """A spec's lcores are those of the server where they are. A tester's server of its own has an
    lcore for the source and one for the sink. `chain`: its servers, in their order."""
    study, execution = experiment.study, experiment.execution
    lcores = study.deployment.lcores
    traffic = _told("traffic", lcores.traffic, doc, tester, study)
    if traffic is None and tester not in chain:
        first, *others = tester.cpus
        traffic = (first, *apart_first(others, [first], tester.topology)[:1])
    own = None
    if len(chain) == 1:
        own = _told("chain", lcores.chain, doc, chain[0], study)
        execution = _shifted(execution, chain[0])
    else:
        if lcores.chain is not None:
            raise doc.error(
                ("deployment", "lcores"),
                "chain: it is on several servers; allowed: `lcores` of the execution's segments",
            )
        execution = _on_servers(experiment, doc, chain)
    told = lcores.model_copy(update={"traffic": traffic, "chain": own})
    deployment = study.deployment.model_copy(update={"lcores": told})
    study = study.model_copy(update={"deployment": deployment})
    # The tester's other lcores are none of the chain's.
    available = list(dict.fromkeys((*(traffic or ()), *(cpu for one in chain for cpu in one.cpus))))
    placed = replace(experiment, study=study, execution=execution)
    return place(placed, doc, available, _together(tester, chain))


def _told(
    what: str, cpus: tuple[int, ...] | None, doc: Document, on: Lot, study: Study
) -> tuple[int, ...] | None:
    """Those that the spec names, by their numbers here."""
    none = {"traffic": None, "chain": None}
    here = [cpu - on.first for cpu in on.cpus]
    check_told(study.deployment.lcores.model_copy(update={**none, what: cpus}), doc, here, on.name)
    return cpus and tuple(cpu + on.first for cpu in cpus)


def _shifted(execution: Execution, on: Lot) -> Execution:
    if execution.lcores is None:
        return execution
    beside = execution.beside and tuple(cpu + on.first for cpu in execution.beside)
    own = tuple(_numbers(cpus, on) for cpus in execution.lcores)
    return execution.model_copy(update={"lcores": own, "beside": beside})


def _numbers(cpus: Sequence[int | str], on: Lot) -> tuple[int | str, ...]:
    return tuple(cpu + on.first if isinstance(cpu, int) else cpu for cpu in cpus)


def _on_servers(experiment: Experiment, doc: Document, chain: Sequence[Lot]) -> Execution:
    """The execution cut where the chain goes from one server to the next, each segment on lcores of
    its server: on those that the spec says, or on the next ones."""
    execution, at = experiment.execution, ("deployment", "execution")
    home = {node.name: node.server for node in experiment.nodes}
    if execution.parallel is not None:
        raise doc.error(at, "parallel: the chain is on several servers; allowed: on one")
    groups = groups_of(experiment)
    if execution.model == "rtc":
        groups = [tuple(n for n in home if home[n] == one.name) for one in chain]
    servers = [{home[name] for name in group} for group in groups]
    for group, on in zip(groups, servers, strict=True):
        if len(on) > 1:
            raise doc.error(at, f"segment {', '.join(group)} is on {len(on)} servers; allowed: one")
    lots = [next(one for one in chain if one.name in on) for on in servers]
    if execution.lcores is not None:
        lcores = [_numbers(cpus, lot) for cpus, lot in zip(execution.lcores, lots, strict=True)]
    else:
        counts = execution.replicas or (1,)
        counts = counts * len(groups) if execution.model == "rtc" else counts
        counts = (*counts, *[1] * (len(groups) - len(counts)))
        free = {one.name: cycle(one.cpus) for one in chain}
        lcores = [
            tuple(dict.fromkeys(islice(free[lot.name], count)))
            for lot, count in zip(lots, counts, strict=True)
        ]
    return Execution(
        name=execution.name, model="segments", segments=tuple(groups), lcores=tuple(lcores),
        fastpath=execution.fastpath,
    )  # fmt: skip


def _together(tester: Lot, chain: Sequence[Lot]) -> Topology:
    """NUMA nodes that a spec names are those of the chain's only server."""

    def of(cpu: int) -> Lot:
        return next(one for one in (*chain, tester) if cpu in one.cpus)

    def node(cpu: int) -> int:
        own = of(cpu).topology.node(cpu)
        return own if [of(cpu)] == list(chain) else -1 - own

    return Topology(lambda cpu: of(cpu).topology.threads(cpu), node)
