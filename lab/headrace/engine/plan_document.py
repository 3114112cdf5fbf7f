# SPDX-License-Identifier: Apache-2.0
"""The engine's plan (docs/design/contracts.md) as the lab writes it.

Its form is closed here. What `params` may hold is a link's or function's own affair: it is checked
against the schema that the engine itself gives (`describe.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Self

from headrace.engine.ways import DROP, Direction
from headrace.record.frozen import Record

Params = dict[str, Any]
Targets = dict[str, str]  # edge: another function of the segment, `link:NAME` or `drop`


class PlanLink(Record):
    type: str
    params: Params = {}


class PlanFunction(Record):
    type: str
    params: Params = {}


class PlanInput(Record):
    link: str
    to: str
    direction: Direction | None = None
    port: int | None = None


class PlanParallel(Record):
    nodes: tuple[str, ...]
    cpus: tuple[int, ...]


Steer = Literal["hash", "even"]


class PlanSegment(Record):
    """What is None is the engine's to choose, or is not there."""

    name: str
    cpus: tuple[int, ...]
    burst: int | None = None
    steer: Steer | None = None
    inputs: tuple[PlanInput, ...]
    fastpath: int | None = None
    elastic: int | None = None  # most replicas
    parallel: PlanParallel | None = None
    nodes: dict[str, dict[Direction, Targets]] | None = None

    @property
    def reads(self) -> set[str]:
        return {one.link for one in self.inputs}

    @property
    def writes(self) -> set[str]:
        targets = [one.to for one in self.inputs]
        for directions in (self.nodes or {}).values():
            for edges in directions.values():
                targets += edges.values()
        return {to.removeprefix("link:") for to in targets if to.startswith("link:")}

    def between(self, read: Mapping[str, Sequence[str]], written: Mapping[str, str]) -> Self:
        """The same between other links: what it reads from, and writes to, in place of a link."""

        def target(to: str) -> str:
            link = to.removeprefix("link:")
            return f"link:{written[link]}" if link != to and link in written else to

        inputs = tuple(
            one.model_copy(update={"link": link, "to": target(one.to)})
            for one in self.inputs
            for link in read.get(one.link, [one.link])
        )
        nodes = self.nodes and {
            node: {
                direction: {edge: target(to) for edge, to in edges.items()}
                for direction, edges in directions.items()
            }
            for node, directions in self.nodes.items()
        }
        return self.model_copy(update={"inputs": inputs, "nodes": nodes})


class PlanClass(Record):
    """A place in the caches; the last one has no limit."""

    name: str
    below_cycles: int | None = None


class PlanLocate(Record):
    every: int
    classes: tuple[PlanClass, ...] | None = None


class PlanWait(Record):
    mode: Literal["poll", "adaptive", "interrupt"]
    idle_polls: int | None = None
    sleep_us: int | None = None


class PlanEngine(Record):
    """What is None is as the engine has it by default."""

    hugepages: bool | None = None
    memory_mb: int | None = None
    file_prefix: str | None = None
    simd_bits: int | None = None
    mbufs: int | None = None
    mbufs_hot: int | None = None
    mbuf_data_bytes: int | None = None
    packets_node: int | None = None
    pci: tuple[str, ...] | None = None
    spare_cpus: tuple[int, ...] | None = None
    locate: PlanLocate | None = None
    wait: PlanWait | None = None

    def having(self, **more: Any) -> Self:
        """The same with these instead, checked."""
        return type(self).model_validate({**self.model_dump(exclude_none=True), **more})


class Plan(Record):
    """What the engine is started with: links, functions, segments."""

    version: Literal[1] = 1
    engine: PlanEngine
    functions: tuple[str, ...] | None = None  # shared objects; None: the engine's own are all
    links: dict[str, PlanLink]
    nfs: dict[str, PlanFunction]
    segments: tuple[PlanSegment, ...]

    def having(self, **more: Any) -> Self:
        """The same with these parts instead."""
        return self.model_copy(update=more)

    def as_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude_none=True)

    @property
    def text(self) -> str:
        return self.model_dump_json(exclude_none=True)

    def placed(self, text: str, by: str) -> Self:
        """The same with a text everywhere replaced: what a place is called is known when a run
        begins."""
        return type(self).model_validate_json(self.text.replace(text, by))

    @property
    def sources(self) -> list[PlanLink]:
        return [link for link in self.links.values() if link.type == "source"]

    @property
    def rings(self) -> dict[str, PlanLink]:
        return {name: link for name, link in self.links.items() if link.type == "ring"}


def ring(size: int, on_full: str | None = None) -> PlanLink:
    params: Params = {"size": size}
    return PlanLink(type="ring", params=params | ({"on_full": on_full} if on_full else {}))


def passing(name: str, cpu: int, links: Iterable[tuple[str, str]]) -> PlanSegment:
    """A segment without functions: from each link to another."""
    inputs = tuple(PlanInput(link=one, to=f"link:{other}") for one, other in links)
    return PlanSegment(name=name, cpus=(cpu,), inputs=inputs)


def chain_of(plan: Plan, wire: str, back: str, direction: Direction) -> list[str]:
    """The functions that a plan puts between two links, by the shortest way; [] if none does."""
    readers = {entry.link: (s, entry.to) for s in plan.segments for entry in s.inputs}
    if wire not in readers:
        return []
    ways: list[tuple[PlanSegment, str, list[str]]] = [(*readers[wire], [])]
    seen: set[str] = set()
    while ways:
        segment, at, met = ways.pop(0)
        link = at.removeprefix("link:")
        if link == back:
            return met
        if at in seen or at == DROP:
            continue
        seen.add(at)
        if at != link:
            if link in readers:
                ways.append((*readers[link], met))
            continue
        edges = (segment.nodes or {}).get(at, {})
        targets = edges.get(direction, edges.get("forward", {})).values()
        ways += [(segment, target, [*met, at]) for target in targets]
    return []
