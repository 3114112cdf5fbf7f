# SPDX-License-Identifier: Apache-2.0
"""What becomes of a workload's first packets, as the engine shows before anything is measured:
rules that deny all of them and routes that are missing are right, but rarely what was meant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container

from headrace.engine.counts import EngineCounts
from headrace.engine.describe import Description
from headrace.engine.place import PlacedSegment, Placement
from headrace.engine.plan_compiler import Path, compile_plan, paths
from headrace.engine.plan_document import Plan, PlanEngine
from headrace.spec.document import Document
from headrace.spec.study import Experiment
from headrace.spec.vm import APPLIANCE
from headrace.spec.workload import Packets

_FEWEST, _MOST = 1024, 1 << 20  # packets of each direction that are tried; two seconds
MEMORY_MAX_MB = 4096  # ordinary memory that may be taken beside what runs on this machine


def packets_tried(experiment: Experiment) -> int:
    """All flows once, where they are not too many."""
    workload = experiment.workload
    flows = workload.flows.count if isinstance(workload, Packets) else _MOST
    return min(max(flows, _FEWEST), _MOST)


NOTHING = "nothing can be measured"  # the end of the note of a chain that lets nothing out


def dry_plan(experiment: Experiment, description: Description, doc: Document) -> Plan | None:
    """The chain on one lcore: how it is cut makes no difference to what is dropped. None: the
    engine cannot try it, as functions are not its own or tables are too large."""
    if experiment.study.deployment.memory_mb > MEMORY_MAX_MB:
        return None
    if any(node.nf == APPLIANCE for node in experiment.nodes):
        return None
    chain = PlacedSegment("chain", tuple(node.name for node in experiment.nodes), (0,))
    placement = Placement(0, 0, (chain,), ())
    memory = PlanEngine(memory_mb=experiment.study.deployment.memory_mb)
    return compile_plan(experiment, placement, description, doc, memory)


def notes(reading: EngineCounts, experiment: Experiment) -> tuple[str, ...]:
    """One for each direction of which packets were dropped. `reading`: the engine's counters after
    the dry run of `dry_plan`."""
    meant = {node.name for node in experiment.nodes if node.nf == "null"}
    drops = _drops(reading, meant)
    return tuple(
        note for way in paths(experiment) if (note := _of_way(way, reading, drops, experiment))
    )


def _of_way(
    way: Path, reading: EngineCounts, drops: Counter[str], experiment: Experiment
) -> str | None:
    sent, received = reading.source(way.source).sent, reading.sink(way.sink).received
    if not sent or received >= sent or not drops:
        return None
    named = "; ".join(f"{where} {packets}" for where, packets in drops.most_common(3))
    both = ", of both directions" if len(paths(experiment)) > 1 else ""
    of = f"of {sent} packets of the workload tried, {way.direction}"
    if not received:
        return f"{of}, none comes through the chain ({named}{both}): {NOTHING}"
    share = f"{of}, {sent - received} are dropped ({named}{both})"
    if experiment.study.measure.losses == "unintended":
        return share
    return f"{share}; they count as lost unless `measure` has `losses: unintended`"


def _drops(reading: EngineCounts, meant: Container[str]) -> Counter[str]:
    """`acl: denied-by-default` -> packets. `meant`: functions that are there to drop packets."""
    drops: Counter[str] = Counter()
    for name, counts in ((n, c) for replica in reading.replicas for n, c in replica.nfs.items()):
        if name in meant:
            continue
        drops.update({f"{name}: {why}": n for why, n in counts.dropped.items() if n})
        if counts.aborted:
            drops[f"{name}: malformed"] += counts.aborted
    return drops
