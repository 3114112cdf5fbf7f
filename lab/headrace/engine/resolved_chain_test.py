# SPDX-License-Identifier: Apache-2.0
"""What a bundle says of a chain of our engines."""

from __future__ import annotations

from headrace.engine.plan_document import Plan, PlanEngine, PlanLink, passing
from headrace.engine.resolved_chain import ResolvedChain
from headrace.record.resolved import Resolved


def test_the_plan_is_written_as_the_engine_reads_it() -> None:
    """Without what is None: the engine knows no null for it."""
    plan = Plan(
        engine=PlanEngine(hugepages=False),
        links={"in": PlanLink(type="mem"), "out": PlanLink(type="mem")},
        nfs={},
        segments=(passing("all", 1, [("in", "out")]),),
    )
    chain = ResolvedChain(
        chain="c",
        execution="rtc",
        workload="w",
        study={},
        lcores={"all": (1,)},
        notes=(),
        plan=plan,
    )
    [written] = Resolved(experiments=(chain,)).as_json()["experiments"]
    assert written["plan"] == plan.as_json()
    assert written["plan"]["engine"] == {"hugepages": False}
    assert list(written["plan"]["segments"][0]) == ["name", "cpus", "inputs"]
