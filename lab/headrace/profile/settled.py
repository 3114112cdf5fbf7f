# SPDX-License-Identifier: Apache-2.0
"""A placement as people read it: CPUs, ports and queues, why each chain is where it is, and a spec
that `headrace run` takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.engine.describe import Description, with_absolute_files
from headrace.host.programs import shipped
from headrace.layout.placing import (
    SAME,
    areas_of,
    lcores_of,
    loads_of,
    origins,
    segment_work,
    share,
    value_of,
)
from headrace.profile.chain_parts import parts_of
from headrace.profile.hosted_placeable import HostedPlaceable
from headrace.profile.placeable import Placeable
from headrace.spec.placement import (
    WHOLE,
    ChosenPlacement,
    ChosenSegment,
    ChosenWay,
    NextBest,
    PlacementAnswer,
    PlacementPlan,
    PlacementProblem,
    SettledChain,
    SettledSegment,
    ThreadMode,
    UsedLcore,
    UsedLimit,
)
from headrace.spec.study import Experiment

Json = dict[str, Any]
RETA = 128  # entries of a port's table, as most NICs have at least
_FROM_PORT = ("by the port", "", "by the port of the other socket")
_FROM_SEGMENT = ("from the same cache", "from another cache", "from the other socket")


@dataclass(frozen=True)
class SettledPlacement:
    placeable: Placeable
    answer: PlacementAnswer

    @property
    def problem(self) -> PlacementProblem:
        return self.answer.problem

    @property
    def mode(self) -> ThreadMode:
        return self.problem.modes[self.answer.placement.mode]

    def plan(self, seconds: float, checked: str) -> PlacementPlan:
        server, certificate = self.placeable.server, self.answer.certificate
        how = "prices of lcores and limits (Lagrange)"
        if any(mode.grain for mode in certificate.modes):
            how = "prices of what lcores can hold (patterns)"
        if certificate.trees:
            how = "branches by where chains are, with prices in each (branch and bound)"
        if certificate.ports is not None:
            how = f"all {certificate.ports} choices of a port for each chain"
        if certificate.enumerated is not None:
            how = f"all {certificate.enumerated.placements} placements"
        return PlacementPlan(
            server=server.name,
            about=server.about,
            word=self.answer.word,
            proof=f"by {how}; {checked}",
            seconds=seconds,
            threads=self.mode.threads,
            chains=tuple(self._chain(c) for c in range(len(self.problem.chains))),
            lcores=tuple(self._lcores()),
            limits=tuple(self._limits()),
            cautions=()
            if self._hosted is None
            else self._hosted.cautions(self.answer.placement, self._factor),
            answer=self.answer,
        )

    @property
    def _factor(self) -> float:
        """How many times what is asked is carried: all that is shown is at that."""
        return WHOLE / self.answer.value if self.problem.aim == "rate" else 1.0

    @property
    def _hosted(self) -> HostedPlaceable | None:
        return self.placeable if isinstance(self.placeable, HostedPlaceable) else None

    def _cpus(self, segment: ChosenSegment) -> tuple[int, ...]:
        threads = self.mode.threads
        return tuple(self.placeable.cpu(segment.area, i, threads) for i in segment.lcores)

    def _chain(self, number: int) -> SettledChain:
        chain, way = self.problem.chains[number], self.answer.placement.ways[number]
        door = chain.doors[way.door]
        latency = loads_of(self.problem, self.answer.placement).latency_ns[number]
        queues = self._cpus(way.segments[0])
        entries = RETA // parts_of(self.placeable.experiments[number])
        buckets = [len(range(i, entries, len(queues))) for i in range(len(queues))]
        sockets = self.placeable.server.sockets
        hosts = self._hosted.host_cpus if self._hosted is not None else ()
        return SettledChain(
            chain=chain.name,
            rate_pps=chain.rate_pps,
            carries_pps=chain.rate_pps * self._factor,
            latency_us=latency / 1e3 if self._hosted is None else None,
            within_us=None if chain.within_ns is None else chain.within_ns / 1e3,
            server=self.problem.servers[door.server].name,
            port=door.name,
            queues=queues if self._hosted is None else (),
            buckets=tuple(buckets) if self._hosted is None else (),
            memory_node=self.problem.areas[way.segments[0].area].node % sockets,
            segments=tuple(self._segments(number)),
            host_cpus=hosts,
            next_best=tuple(self._elsewhere(number)),
        )

    def _segments(self, number: int) -> Iterator[SettledSegment]:
        hosted, one = self._hosted, self.placeable.experiments[number]
        chain, way = self.problem.chains[number], self.answer.placement.ways[number]
        for i, (s, come) in enumerate(
            zip(way.segments, origins(self.problem, chain, way), strict=True)
        ):
            work = segment_work(chain, s.first, s.end, s.area, come)
            yield SettledSegment(
                functions=tuple(f.name for f in chain.functions[s.first : s.end]),
                place=self.problem.areas[s.area].name,
                cpus=self._cpus(s),
                load=self._load(share(chain, work, len(s.lcores))),
                comes=(_FROM_SEGMENT if i else _FROM_PORT)[come],
                vfs=() if hosted is None else hosted.functions_of(one, i, len(way.segments)),
            )

    def _load(self, load: int) -> float:
        """The load as a share of an lcore."""
        return load / self.mode.speed * self._factor

    def _lcores(self) -> Iterator[UsedLcore]:
        """All of them, those without work, too."""
        parts: dict[tuple[int, int], dict[str, float]] = {}
        for chain, way in zip(self.problem.chains, self.answer.placement.ways, strict=True):
            for s, come in zip(way.segments, origins(self.problem, chain, way), strict=True):
                work = segment_work(chain, s.first, s.end, s.area, come)
                each = self._load(share(chain, work, len(s.lcores)))
                for lcore in s.lcores:
                    here = parts.setdefault((s.area, lcore), {})
                    here[chain.name] = here.get(chain.name, 0.0) + each
        for a, area in enumerate(self.problem.areas):
            for lcore in range(lcores_of(self.problem, self.mode, a)):
                yield UsedLcore(
                    server=self.problem.servers[area.server].name,
                    place=area.name,
                    cpu=self.placeable.cpu(a, lcore, self.mode.threads),
                    parts=parts.get((a, lcore), {}),
                )

    def _limits(self) -> Iterator[UsedLimit]:
        used = loads_of(self.problem, self.answer.placement).limits
        for amount, limit in zip(used, self.problem.limits, strict=True):
            yield UsedLimit(name=limit.name, share=amount / limit.capacity * self._factor)

    # --- why it is there ---

    def _elsewhere(self, number: int) -> Iterator[NextBest]:
        """This chain alone otherwise: in each other cache of its server, by each other port, and
        cut otherwise; on the lcores that then have least to do."""
        chain, way = self.problem.chains[number], self.answer.placement.ways[number]
        here = {s.area for s in way.segments}
        cuts = [(s.first, s.end) for s in way.segments]
        server = chain.doors[way.door].server
        for area in areas_of(self.problem, server):
            if here != {area}:
                name = self.problem.areas[area].name
                yield self._moved(
                    number, f"all on {name}", way.door, [(*cut, area) for cut in cuts]
                )
        whole = [(0, len(chain.functions), way.segments[0].area)]
        if len(cuts) > 1:
            yield self._moved(number, "run to completion", way.door, whole)
        elif len(chain.functions) > 1:
            single = [(i, i + 1, way.segments[0].area) for i in range(len(chain.functions))]
            yield self._moved(number, "a pipeline", way.door, single)
        for d, door in enumerate(chain.doors):
            if d != way.door and door.server == server:
                same = [(s.first, s.end, s.area) for s in way.segments]
                yield self._moved(number, door.name, d, same)

    def _moved(
        self, number: int, where: str, door: int, parts: list[tuple[int, int, int]]
    ) -> NextBest:
        values = [
            value
            for k in range(1, len(self.problem.chains[number].spread) + 1)
            if (value := self._with(number, door, parts, k)) is not None
        ]
        return NextBest(where=where, value=min(values, default=None))

    def _with(
        self, number: int, door: int, parts: list[tuple[int, int, int]], replicas: int
    ) -> int | None:
        """The value with this chain cut so, of so many replicas each; None: not possible."""
        placement, mode = self.answer.placement, self.mode
        others = [way for i, way in enumerate(placement.ways) if i != number]
        chains = [one for i, one in enumerate(self.problem.chains) if i != number]
        rest = self.problem.model_copy(update={"chains": tuple(chains)})
        kept = placement.model_copy(update={"ways": tuple(others)})
        taken = dict(loads_of(rest, kept).lcores) if others else {}
        segments = []
        for first, end, area in parts:
            lcores = range(lcores_of(self.problem, mode, area))
            if replicas > len(lcores):
                return None
            least = sorted(lcores, key=lambda i, a=area: (taken.get((a, i), 0), i))  # type: ignore[misc]
            on = tuple(sorted(least[:replicas]))
            chain = self.problem.chains[number]
            work = segment_work(chain, first, end, area, SAME)
            for i in on:
                taken[area, i] = taken.get((area, i), 0) + share(chain, work, replicas)
            segments.append(ChosenSegment(first=first, end=end, area=area, lcores=on))
        ways = list(placement.ways)
        ways[number] = ChosenWay(door=door, segments=tuple(segments))
        return value_of(self.problem, ChosenPlacement(mode=placement.mode, ways=tuple(ways)))

    # --- a spec ---

    def spec(self, server: Path, description: Description) -> Json:
        """One group for each chain, at the rate that it is placed for, on the described server. Its
        files are named from the root, so that it can be stored anywhere. VNFs that are hosted apart
        have no ground: that spec is for the server itself, or for `--on`; one chain of them has no
        group either."""
        doc = self.placeable.doc
        data = {
            key: value
            for key, value in doc.data.items()
            if key not in ("chain", "chains", "demands", "ground", "measure", "deployment")
        }
        groups: dict[str, Json] = {}
        for c, one in enumerate(self.placeable.experiments):
            chain = self._chain(c)
            groups[one.chain] = {
                "about": f"Chain {one.chain} as placed on {chain.server}.",
                "spec": self._chain_spec(one, chain, description),
            }
        if self._hosted is None:
            named = server.stem if server.parent == shipped("servers") else str(server.resolve())
            return {**data, "ground": {"simulated": {"server": named}}, "groups": groups}
        if len(groups) > 1:
            return {**data, "groups": groups}
        [only] = groups.values()
        return {**data, **only["spec"]}

    def _chain_spec(self, one: Experiment, chain: SettledChain, description: Description) -> Json:
        doc = self.placeable.doc
        nodes = [
            {"name": n.name, "nf": n.nf,
             "params": with_absolute_files(description.nfs[n.nf]["params"], n.params, doc)}
            for n in one.nodes
        ]  # fmt: skip
        loads: Json = {"loads": [round(chain.rate_pps)]}
        if self._hosted is not None:
            measure = doc.data.get("measure") or loads
            return {"chain": nodes, "deployment": self._deployed(chain), "measure": measure}
        execution = {
            "name": "placed",
            "segments": [list(s.functions) for s in chain.segments],
            "lcores": [list(s.cpus) for s in chain.segments],
        }
        deployment = {**(doc.data.get("deployment") or {}), "execution": execution}
        if self.placeable.server.tester == "inside":
            deployment["lcores"] = {"traffic": [self._free()], "shared": True}
        spec = {"chain": nodes, "deployment": deployment, "measure": loads}
        return spec if parts_of(one) == 1 else {**spec, "workload": self._part(one)}

    def _part(self, one: Experiment) -> Json:
        """The traffic with the part's own number of flows."""
        given = self.placeable.doc.data.get("workload") or {}
        workload = dict(given[0] if isinstance(given, list) else given)
        flows = workload.get("flows")
        own = {"count": one.flows}
        return {**workload, "flows": {**flows, **own} if isinstance(flows, dict) else own}

    def _deployed(self, chain: SettledChain) -> Json:
        """An lcore for each VNF, the first copy's first, and the host's."""
        given = self.placeable.doc.data.get("deployment") or {}
        hosting = given.get("hosting") or {}
        hosting = {"kind": hosting} if isinstance(hosting, str) else dict(hosting)
        copies = zip(*(s.cpus for s in chain.segments), strict=True)
        lcores = [cpu for copy in copies for cpu in copy]
        segments = [list(s.functions) for s in chain.segments]
        return {
            **given,
            "execution": {"name": "placed", "segments": segments},
            "hosting": {**hosting, "placement": "explicit", "lcores": lcores},
            "lcores": {"traffic": list(chain.host_cpus), "chain": sorted(lcores)},
        }

    def _free(self) -> int:
        """An lcore for traffic: the one with least to do."""
        return min(self._lcores(), key=lambda one: sum(one.parts.values())).cpu


def value_text(problem: PlacementProblem, value: int | None) -> str:
    """What the aim counts, with its unit."""
    if value is None:
        return "no room"
    if problem.aim == "rate":  # a load, by which all that there is is filled
        return f"{WHOLE / value:.3g} times what is asked" if value else "any rate at all"
    units = {"lcores": "lcores", "latency": "ns in all", "money": "USD"}
    return f"{value / 1000:g} W" if problem.aim == "watts" else f"{value} {units[problem.aim]}"
