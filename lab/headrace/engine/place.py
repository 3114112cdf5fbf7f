# SPDX-License-Identifier: Apache-2.0
"""Which lcore runs what: traffic on its own, the chain's segments on the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.errors import BadInput
from headrace.host.numa import node_of
from headrace.host.own_cpus import cpu_sets, lcores_of
from headrace.spec.deployment import Lcores, on_node
from headrace.spec.document import Document
from headrace.spec.study import Experiment

_ROOMY = 4  # lcores beyond the chain's own, from which on source and sink have one each
_SYS_CPU = Path("/sys/devices/system/cpu")


@dataclass(frozen=True)
class PlacedSegment:
    name: str
    nodes: tuple[str, ...]
    cpus: tuple[int, ...]
    parallel: tuple[str, ...] = ()  # functions side by side, the first on `cpus`
    beside: tuple[tuple[int, ...], ...] = ()  # where the others run: an lcore for each replica
    elastic: int | None = None  # replicas that it may have at most; None: as many as it has

    @property
    def most(self) -> int:
        return self.elastic or len(self.cpus)

    @property
    def all_cpus(self) -> tuple[int, ...]:
        return (*self.cpus, *(cpu for cpus in self.beside for cpu in cpus))


@dataclass(frozen=True)
class Placement:
    generator: int
    sink: int
    segments: tuple[PlacedSegment, ...]
    notes: tuple[str, ...]
    others: tuple[int, ...] = ()  # lcores of programs that are not the engine's
    spare: tuple[int, ...] = ()  # that elastic segments may be given
    room: tuple[int, ...] = ()  # all that a replica of an elastic segment may be on, in this order
    # Where several make packets or measure them; `generator` and `sink` are of these.
    generators: tuple[int, ...] = ()
    sinks: tuple[int, ...] = ()

    @property
    def cpus(self) -> set[int]:
        of_segments = (c for s in self.segments for c in s.all_cpus)
        ends = *self.making, *self.measuring
        return {*ends, *self.others, *self.spare, *of_segments}

    @property
    def making(self) -> tuple[int, ...]:
        """All lcores that make packets."""
        return self.generators or (self.generator,)

    @property
    def measuring(self) -> tuple[int, ...]:
        return self.sinks or (self.sink,)


def usable_cpus() -> list[int]:
    """The CPUs that may be lcores here, the best first."""
    return lcores_of(cpu_sets())


def _threads_of_core(cpu: int) -> list[int]:
    """The CPU's own among them; none where the kernel does not say."""
    try:
        text = (_SYS_CPU / f"cpu{cpu}" / "topology" / "thread_siblings_list").read_text()
    except OSError:
        return []
    siblings: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        siblings += range(int(first), int(last or first) + 1)
    return siblings


@dataclass(frozen=True)
class Topology:
    """What placing asks of a machine: the threads of a CPU's core, and its NUMA node."""

    threads: Callable[[int], Sequence[int]]
    node: Callable[[int], int]


HERE = Topology(lambda cpu: _threads_of_core(cpu), lambda cpu: node_of(cpu))


def apart_first(cpus: Sequence[int], busy: Sequence[int], topology: Topology = HERE) -> list[int]:
    """Keeps their order, but has last those that share a core with a busy one: a generator is no
    steady one beside work on its core's other thread."""
    return sorted(cpus, key=lambda cpu: not set(busy).isdisjoint(topology.threads(cpu)))


def place(
    experiment: Experiment, doc: Document, available: list[int], topology: Topology = HERE
) -> Placement:
    """Assign lcores. With fewer lcores than segments, segments share lcores, and it is said."""
    traffic, chain = _choose(experiment, doc, available, topology)
    groups = groups_of(experiment)
    if experiment.execution.lcores is not None:
        told = _as_told(experiment, doc, groups, traffic, available, topology)
        return _elastic(told, experiment, chain)
    replicas = _replicas(experiment, groups, len(chain))
    if max(replicas) > len(chain):
        raise doc.error(
            ("deployment", "execution"),
            f"{max(replicas)} replicas of a segment on {len(chain)} lcores of the chain; "
            f"allowed: at most one on each, here {len(chain)}",
        )
    segments, used = [], 0
    for group, count in zip(groups, replicas, strict=True):
        cpus = tuple(dict.fromkeys(chain[(used + i) % len(chain)] for i in range(count)))
        used += count
        beside = experiment.execution.parallel or ()
        beside = beside if set(beside) <= set(group) else ()
        sides = tuple(
            tuple(chain[(used + side * count + i) % len(chain)] for i in range(count))
            for side in range(len(beside[1:]))
        )
        used += count * len(sides)
        name = _segment_name(group, len(groups))
        segments.append(PlacedSegment(name, group, cpus, beside, sides))
    notes = tuple(_notes(traffic, chain, segments, used))
    placed = _several(
        Placement(traffic[0], traffic[-1], tuple(segments), notes), experiment, traffic
    )
    return _elastic(placed, experiment, chain)


def _several(placed: Placement, experiment: Experiment, traffic: list[int]) -> Placement:
    """With more generators than one, where the spec says how many; those that it leaves measure."""
    count = experiment.study.deployment.lcores.generators
    if count is None:
        return placed
    making = tuple(traffic[:count])
    return replace(placed, generators=making, sinks=tuple(traffic[count:]) or making)


def _elastic(placed: Placement, experiment: Experiment, chain: Sequence[int]) -> Placement:
    """Adds what its segments may have later: the lcores of the chain that none has yet."""
    most = experiment.execution.elastic
    if most is None:
        return placed
    spare = tuple(cpu for cpu in chain if cpu not in placed.cpus)
    named = f"lcores {', '.join(map(str, spare))}" if spare else "none"
    note = f"elastic: each segment may have {most} replicas; spare for them: {named}"
    segments = tuple(replace(one, elastic=most) for one in placed.segments)
    own = (cpu for one in placed.segments for cpu in one.cpus)
    return replace(
        placed,
        segments=segments,
        spare=spare,
        room=tuple(dict.fromkeys((*own, *chain))),
        notes=(*placed.notes, note),
    )


def _as_told(
    experiment: Experiment,
    doc: Document,
    groups: list[tuple[str, ...]],
    traffic: list[int],
    available: list[int],
    topology: Topology,
) -> Placement:
    """The execution says which lcores run each segment."""
    told = _numbers(experiment, doc, traffic, available, topology)
    group, beside = experiment.execution.parallel or (), experiment.execution.beside or ()
    shared = experiment.study.deployment.lcores.shared or len(available) == 1
    for cpu in sorted({cpu for cpus in (*told, beside) for cpu in cpus}):
        if cpu not in available or (cpu in traffic and not shared):
            allowed = [c for c in available if shared or c not in traffic]
            raise doc.error(
                ("deployment", "execution"),
                f"{'beside' if cpu in beside else 'lcores'} names lcore {cpu}; "
                f"allowed: {sorted(allowed)}"
                + ("" if shared else " (traffic's too with `lcores: {shared: true}`)"),
            )
    segments = []
    for names, cpus in zip(groups, told, strict=True):
        name = _segment_name(names, len(groups))
        if group and set(group) <= set(names):
            sides = tuple((cpu,) for cpu in beside)
            segments.append(PlacedSegment(name, names, tuple(cpus), group, sides))
        else:
            segments.append(PlacedSegment(name, names, tuple(cpus)))
    chain = sorted({cpu for segment in segments for cpu in segment.all_cpus})
    notes = tuple(_notes(traffic, chain, segments, len(chain)))
    placed = Placement(traffic[0], traffic[-1], tuple(segments), notes)
    return _several(placed, experiment, traffic)


def _numbers(
    experiment: Experiment,
    doc: Document,
    traffic: list[int],
    available: list[int],
    topology: Topology,
) -> list[tuple[int, ...]]:
    """A NUMA node stands for its lcore that has least else to do; the traffic's come last."""
    told = experiment.execution.lcores or ()
    uses = Counter(cpu for cpus in told for cpu in cpus if isinstance(cpu, int))
    groups = []
    for cpus in told:
        segment: list[int] = []
        for cpu in cpus:
            if not isinstance(cpu, int):
                here = [c for c in available if topology.node(c) == on_node(cpu) and c not in cpus]
                free = [c for c in here if c not in segment]
                if not free:
                    raise _no_such(cpu, here, doc, available, topology)
                cpu = min(free, key=lambda c: (c in traffic, uses[c]))
                uses[cpu] += 1
            segment.append(cpu)
        groups.append(tuple(segment))
    return groups


def _no_such(
    cpu: str, here: list[int], doc: Document, available: list[int], topology: Topology
) -> BadInput:
    nodes = sorted({topology.node(one) for one in available})
    problem = (
        f"lcores names {cpu} more often than it has lcores of ours, {sorted(here)}"
        if here
        else f"lcores names {cpu}, which has no lcore of ours"
    )
    return doc.error(
        ("deployment", "execution"),
        f"{problem}; allowed: {', '.join(f'node {node}' for node in nodes)}, or an lcore's number",
    )


def check_told(
    lcores: Lcores, doc: Document, available: Sequence[int], machine: str = "this machine"
) -> None:
    """BadInput for an lcore that is named and not ours to use."""
    for what, cpus in (("traffic", lcores.traffic), ("chain", lcores.chain)):
        for cpu in cpus or ():
            if cpu not in available:
                raise doc.error(
                    ("deployment", "lcores"),
                    f"{what} names lcore {cpu}, which {machine} does not give us; "
                    f"allowed: {sorted(available)}",
                )


def _choose(
    experiment: Experiment, doc: Document, available: list[int], topology: Topology
) -> tuple[list[int], list[int]]:
    lcores = experiment.study.deployment.lcores
    check_told(lcores, doc, available)
    both = set(lcores.traffic or ()) & set(lcores.chain or ())
    if both and len(available) > 1 and not lcores.shared:
        raise doc.error(
            ("deployment", "lcores"),
            f"lcore {min(both)} is given to traffic and to the chain; allowed: one of them",
        )
    traffic = list(lcores.traffic or ())
    if not traffic:
        traffic = _traffic(experiment, available, topology)
    free = apart_first([cpu for cpu in available if cpu not in traffic], traffic, topology)
    # As many lcores as the chain has functions: each execution model then has the same budget.
    chain = list(lcores.chain or free[: max(1, _lcores_wanted(experiment))] or traffic)
    return traffic, chain


def _traffic(experiment: Experiment, available: list[int], topology: Topology) -> list[int]:
    """One lcore for source and sink; where lcores are left over, one for each."""
    chain = experiment.study.deployment.lcores.chain
    others = [cpu for cpu in available if cpu not in (chain or ())]
    first = others[:1] or available[:1]
    spare = len(others) - (0 if chain else max(1, _lcores_wanted(experiment)))
    if spare < _ROOMY:
        return first
    return [*first, *apart_first(others[1:], first, topology)[:1]]


def _lcores_wanted(experiment: Experiment) -> int:
    replicas, elastic = experiment.execution.replicas, experiment.execution.elastic or 0
    if replicas is None:
        return max(elastic, len(experiment.nodes))
    beside = experiment.execution.parallel or ()
    wanted = sum(
        count * (len(beside) if beside and set(beside) <= set(group) else 1)
        for group, count in zip(groups_of(experiment), replicas, strict=False)
    )
    return max(elastic, wanted)


def groups_of(experiment: Experiment) -> list[tuple[str, ...]]:
    """The functions of each segment."""
    execution, names = experiment.execution, tuple(node.name for node in experiment.nodes)
    if execution.segments is not None:
        return list(execution.segments)
    if execution.model == "pipeline" and names:
        beside = execution.parallel or ()
        return [beside if name in beside else (name,) for name in names if name not in beside[1:]]
    return [names]


def _replicas(experiment: Experiment, groups: list[tuple[str, ...]], lcores: int) -> list[int]:
    execution = experiment.execution
    if execution.replicas is not None:
        return [*execution.replicas, *[1] * (len(groups) - len(execution.replicas))]
    if execution.model == "rtc" and execution.elastic is None and execution.becomes is None:
        return [max(1, lcores // len(execution.parallel or (0,)))]
    return [1] * len(groups)


def _segment_name(group: tuple[str, ...], count: int) -> str:
    return "chain" if count == 1 else ".".join(group)[:31]


def _notes(
    traffic: list[int], chain: list[int], segments: list[PlacedSegment], used: int
) -> list[str]:
    notes = []
    if len(traffic) == 1:
        notes.append(f"generator and sink share lcore {traffic[0]}")
    for cpu in chain:
        here = [segment.name for segment in segments if cpu in segment.all_cpus]
        if len(here) > 1:
            notes.append(f"segments {', '.join(here)} share lcore {cpu}")
    notes += [
        f"functions side by side share lcores: {', '.join(segment.parallel)}"
        for segment in segments
        if len(set(segment.all_cpus)) < len(segment.all_cpus)
    ]
    notes += [f"traffic and chain share lcore {cpu}" for cpu in sorted(set(traffic) & set(chain))]
    if used < len(chain):
        notes.append(f"{len(chain) - used} of the chain's {len(chain)} lcores unused")
    return notes
