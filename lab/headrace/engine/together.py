# SPDX-License-Identifier: Apache-2.0
"""Several chains in one engine, whose segments may share lcores: an lcore polls those that it has
in turn. Each chain has a view of the engine in which it is alone, by its own names.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from headrace.engine.control import ControlLost
from headrace.engine.counts import EngineCounts, EngineInfo, ReplicaCounts
from headrace.engine.plan_document import Plan, PlanEngine, PlanSegment
from headrace.engine.running import RunningEngine
from headrace.engine.ways import DROP
from headrace.errors import HeadraceError
from headrace.host.scheduling import Snapshot

_LINK = "link:"
_CHAINS_MOST = 99
NAME_MOST = 31 - len(f"{_CHAINS_MOST}.")  # of what a chain names (engine/core/plan/plan.c)


@dataclass(frozen=True)
class Numbered:
    """The names of one chain of several: `1.nat` is its `nat`, if it is the first. A name has 31
    characters at most, and a chain's own may have as many."""

    number: int

    @property
    def prefix(self) -> str:
        return f"{self.number}."

    def out(self, name: str) -> str:
        """What the engine calls it."""
        return f"{self.prefix}{name}"

    def own(self, named: Mapping[str, Any]) -> dict[str, Any]:
        """Those of this chain, by its own names."""
        mine = self.prefix
        return {k.removeprefix(mine): one for k, one in named.items() if k.startswith(mine)}

    def target(self, to: str) -> str:
        """A function or a link that packets go to."""
        if to == DROP:
            return to
        link = to.removeprefix(_LINK)
        return self.out(to) if link == to else f"{_LINK}{self.out(link)}"

    def segment(self, one: PlanSegment) -> PlanSegment:
        inputs = tuple(
            entry.model_copy(update={"link": self.out(entry.link), "to": self.target(entry.to)})
            for entry in one.inputs
        )
        nodes = one.nodes and {
            self.out(node): {
                direction: {edge: self.target(to) for edge, to in edges.items()}
                for direction, edges in directions.items()
            }
            for node, directions in one.nodes.items()
        }
        update = {"name": self.out(one.name), "inputs": inputs, "nodes": nodes}
        return one.model_copy(update=update)

    def plan(self, one: Plan) -> Plan:
        links = {}
        for name, link in one.links.items():
            sources = link.params.get("sources")
            params = link.params if sources is None else {
                **link.params, "sources": [self.out(source) for source in sources],
            }  # fmt: skip
            links[self.out(name)] = link.model_copy(update={"params": params})
        return one.having(
            links=links,
            nfs={self.out(name): nf for name, nf in one.nfs.items()},
            segments=tuple(self.segment(segment) for segment in one.segments),
        )


def together(plans: Mapping[str, Plan]) -> Plan:
    """One plan for all of them: by chain, which are numbered in this order."""
    named = [Numbered(number).plan(plan) for number, plan in enumerate(plans.values(), 1)]
    first = named[0]
    return first.having(
        engine=_engine([one.engine for one in named]),
        links={name: link for one in named for name, link in one.links.items()},
        nfs={name: nf for one in named for name, nf in one.nfs.items()},
        segments=tuple(segment for one in named for segment in one.segments),
    )


def _engine(several: list[PlanEngine]) -> PlanEngine:
    """Packets of each lie in rings of its own, and go round among their own; a frame of any fits
    each buffer."""
    sums = {
        key: sum(sizes)
        for key in ("mbufs", "mbufs_hot")
        if (sizes := [size for one in several if (size := getattr(one, key)) is not None])
    }
    largest = max((one.mbuf_data_bytes or 0 for one in several), default=0)
    return several[0].having(**sums, mbuf_data_bytes=largest or None)


@dataclass
class EngineTogether:
    """An engine with the plan of several chains, as it is now."""

    engine: RunningEngine
    plan: Plan
    chains: tuple[str, ...]
    _views: dict[str, ChainView] = field(init=False)

    def __post_init__(self) -> None:
        self._views = {
            chain: ChainView(self, Numbered(number)) for number, chain in enumerate(self.chains, 1)
        }

    def view(self, chain: str) -> ChainView:
        return self._views[chain]

    def start(self, sources: Mapping[str, Mapping[str, Any]]) -> int:
        """Starts the sources of chains at one instant; each chain has one. When that is, by the
        engine's clock."""
        own: dict[str, Any] = {}
        for chain, source in sources.items():
            names = self._views[chain].names
            own |= {names.out(name): told for name, told in source.items()}
        return int(self.engine.request("start", sources=own)["start_tsc"])

    def replan(self, names: Numbered, plan: dict[str, Any], **more: Any) -> dict[str, Any]:
        """The plan with this chain's segments as they are to be, and all others' as they are."""
        own = [names.segment(PlanSegment.model_validate(one)) for one in plan["segments"]]
        wanted = {one.name: one for one in own}
        segments = tuple(wanted.get(one.name, one) for one in self.plan.segments)
        whole = self.plan.having(segments=segments)
        reply = self.engine.request("plan", plan=whole.as_json(), **more)
        self.plan = whole
        return reply


class ChainView(RunningEngine):
    """The engine as one of its chains knows it. Workers, which chains may share, are all there."""

    def __init__(self, whole: EngineTogether, names: Numbered) -> None:
        super().__init__()
        self.whole, self.names = whole, names
        self.turn, self.control = whole.engine.turn, whole.engine.control
        self.shielded = whole.engine.shielded

    @property
    def pid(self) -> int | None:
        return self.whole.engine.pid

    def measuring(self) -> AbstractContextManager[None]:
        return self.whole.engine.measuring()

    def scheduled(self) -> Snapshot:
        return self.whole.engine.scheduled()

    def scheduled_beside(self) -> Snapshot | None:
        return self.whole.engine.scheduled_beside()

    def lost(self, why: ControlLost) -> HeadraceError:
        return self.whole.engine.lost(why)

    def close(self) -> None:
        """It is the engine of all."""

    def info(self) -> EngineInfo:
        return self.whole.engine.info()

    def read(self) -> EngineCounts:
        """Counters of this chain's links and segments."""
        read = self.whole.engine.read()
        segments = {
            name: tuple(self._replica(one) for one in replicas)
            for name, replicas in self.names.own(read.segments).items()
        }
        return read.model_copy(update={"links": self.names.own(read.links), "segments": segments})

    def _replica(self, one: ReplicaCounts) -> ReplicaCounts:
        update = {key: self.names.own(getattr(one, key)) for key in ("inputs", "outputs", "nfs")}
        return one.model_copy(update=update)

    def request(self, cmd: str, **arguments: Any) -> dict[str, Any]:
        if cmd == "plan":
            return self.whole.replan(self.names, **arguments)
        for key in ("link", "segment", "nf"):
            if key in arguments:
                arguments[key] = self.names.out(arguments[key])
        if cmd == "start":
            own = {self.names.out(name): told for name, told in arguments["sources"].items()}
            arguments["sources"] = own
        reply = self.whole.engine.request(cmd, **arguments)
        if cmd == "slices":
            reply |= {key: self.names.own(reply[key]) for key in ("segments", "delays")}
        return reply
