# SPDX-License-Identifier: Apache-2.0
"""Several chains on the same lcores of one engine on this machine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.engine.engine import Engine
from headrace.engine.plan_document import Plan
from headrace.engine.resolved_chain import ResolvedChain
from headrace.engine.together import NAME_MOST, EngineTogether, together
from headrace.ground.contract import Site, resolved_of
from headrace.ground.inline import DeployedEngine, EnginePoint
from headrace.ground.shared_points import SharedDeployed, SharedPoint
from headrace.record.resolved import ResolvedExperiment

if TYPE_CHECKING:
    from headrace.ground.operable import SharedOperable  # numpy: not for a start


@dataclass(frozen=True)
class EngineShared(SharedPoint):
    each: tuple[EnginePoint, ...]

    @classmethod
    def of(cls, points: tuple[EnginePoint, ...]) -> EngineShared:
        """BadInput for names that have no room for what tells chains' functions apart."""
        for one in points:
            for node, at in zip(one.experiment.nodes, one.experiment.node_paths, strict=True):
                if len(node.name) > NAME_MOST:
                    problem = f"{node.name}: {len(node.name)} characters; allowed where chains "
                    raise one.doc.error(at, f"{problem}share an engine: {NAME_MOST}")
        return cls(points)

    @property
    def plan(self) -> Plan:
        return together({one.chain: one.plan for one in self.each})

    def resolved(self) -> ResolvedExperiment:
        own = resolved_of(self, self.study).model_dump()
        return ResolvedChain(**own, notes=self.notes, plan=self.plan)

    @contextlib.contextmanager
    def deploy(self, site: Site) -> Iterator[EngineSharing]:
        own = {one.chain: one.with_memory(site.engine) for one in self.each}
        plan = together(own)
        floors = [one.floor(site) for one in self.each]
        with site.stopwatch.phase("deploying"):
            engine = Engine(self.each[0].description.engine, plan, site.state)
        with engine:
            whole = EngineTogether(engine, plan, tuple(own))
            each = {
                one.chain: DeployedEngine(one, site, whole.view(one.chain), own[one.chain], floor)
                for one, floor in zip(self.each, floors, strict=True)
            }
            yield EngineSharing(each, whole=whole)


@dataclass(kw_only=True)
class EngineSharing(SharedDeployed[DeployedEngine]):
    """What has one engine."""

    whole: EngineTogether

    def sharing(self) -> Mapping[str, SharedOperable]:
        """Each is measured first, by itself, beside the others that have nothing to do."""
        from headrace.ground.shared_plant import SharedStart, sharing_of  # numpy

        start = SharedStart(self.whole)
        return {
            chain: sharing_of(one.elastic(), one, chain, start) for chain, one in self.each.items()
        }
