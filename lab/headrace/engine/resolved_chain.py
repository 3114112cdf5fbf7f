# SPDX-License-Identifier: Apache-2.0
"""What a chain of our engines came to, for the bundle's resolved.json."""

from __future__ import annotations

from typing import Any

from pydantic import field_serializer

from headrace.engine.plan_document import Plan
from headrace.record.resolved import ResolvedExperiment


class ResolvedChain(ResolvedExperiment):
    """A chain of our engines, inline or hosted."""

    notes: tuple[str, ...]  # of its placement
    plan: Plan

    @field_serializer("plan")
    def _as_the_engine_reads_it(self, plan: Plan) -> dict[str, Any]:
        return plan.as_json()
