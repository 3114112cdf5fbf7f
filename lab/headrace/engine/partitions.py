# SPDX-License-Identifier: Apache-2.0
"""Other partitions of a chain that its engine goes to under traffic, and is asked to
(docs/elastic.md)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from headrace.engine.plan_document import Plan, PlanLink, PlanSegment
from headrace.engine.running import RunningEngine
from headrace.record.figures import PartitionChange
from headrace.spec.study import Experiment

Compiled = Callable[[Experiment], Plan]


@dataclass(frozen=True)
class Partition:
    name: str
    segments: tuple[PlanSegment, ...]


def with_partitions(
    experiment: Experiment, compiled: Compiled
) -> tuple[Plan, tuple[Partition, ...]]:
    """The execution's plan, with the links and CPUs of those that it becomes; and all of them, it
    first."""
    plan = compiled(experiment)
    others = experiment.execution.others
    if not others:
        return plan, ()
    plans = [plan, *(compiled(replace(experiment, execution=one)) for one in others)]
    names = [experiment.execution.first_name, *(one.name for one in others)]
    generator, *_, sink = plan.segments
    return (
        _joined(plans, experiment.execution.elastic or 1),
        tuple(
            Partition(name, (generator, *one.segments[1:-1], sink))
            for name, one in zip(names, plans, strict=True)
        ),
    )


def _joined(plans: Sequence[Plan], most: int) -> Plan:
    """Links that only some have are there for these: spare ones. Buffers are those of the one that
    holds most, as the others' rings are empty then."""
    first, links = plans[0], dict[str, PlanLink]()
    for plan in plans:
        for name, link in plan.links.items():
            between = name in plan.rings and not name.startswith("wire-")
            spare = {"spare": most} if between else {}
            links.setdefault(name, link.model_copy(update={"params": link.params | spare}))
    cpus = {cpu for plan in plans for one in plan.segments for cpu in one.cpus}
    cpus |= {cpu for plan in plans for cpu in plan.engine.spare_cpus or ()}
    own = {cpu for one in first.segments for cpu in one.cpus}
    engine = first.engine.having(
        mbufs=max(plan.engine.mbufs or 0 for plan in plans), spare_cpus=tuple(sorted(cpus - own))
    )
    return first.having(links=links, engine=engine)


class PartitionTurns:
    """The partitions in turn, while a trial sends; the first one is there again at its end."""

    def __init__(
        self, engine: RunningEngine, plan: Plan, partitions: Sequence[Partition], every_s: float
    ) -> None:
        self._engine, self._plan, self._partitions = engine, plan, partitions
        self._every_s = every_s
        self.made: list[PartitionChange] = []

    def take(self, began: float, seconds: float) -> None:
        """By the monotonic clock; returns before the seconds are over."""
        self.made, turn = [], 0
        while (at := (turn + 1) * self._every_s) < seconds:
            turn += 1
            last = at + self._every_s >= seconds
            time.sleep(max(0.0, began + at - time.monotonic()))
            self._to(0 if last else turn % len(self._partitions), began)

    def _to(self, i: int, began: float) -> None:
        one = self._partitions[i]
        at_s = max(0.0, time.monotonic() - began)
        reply = self._engine.request(
            "plan", plan=self._plan.having(segments=one.segments).as_json()
        )
        if (told := reply.get("partition")) is None:  # it is there already
            return
        self.made.append(
            PartitionChange(
                to=one.name, at_s=at_s, took_ns=told["took_ns"], paused_ns=reply["paused_ns"],
                pauses=told["pauses"], waited=told["waited"], functions=told["functions"],
            )
        )  # fmt: skip
