# SPDX-License-Identifier: Apache-2.0
"""Why a set of VNFs makes no chain graph at all."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.graph.count import GraphCounter
from headrace.graph.knowledge import Knowledge, PlacedRule
from headrace.graph.problem import WantedVnf, compile_problem


def conflict(
    wanted: Sequence[WantedVnf], knowledge: Knowledge, width: int
) -> tuple[PlacedRule, ...]:
    """Rules that together leave no graph, none of which can be missing: a minimal unsatisfiable
    subset, by leaving out one rule after the other. Without rules there is always a graph."""

    def any_graph(rules: Sequence[PlacedRule]) -> bool:
        allowed = Knowledge(vnfs=knowledge.vnfs, rules=tuple(rules))
        return GraphCounter(compile_problem(wanted, allowed, width=width)).total() > 0

    kept = list(knowledge.rules)
    for rule in knowledge.rules:
        others = [one for one in kept if one is not rule]
        if not any_graph(others):
            kept = others
    return tuple(kept)


def why_none(wanted: Sequence[WantedVnf], knowledge: Knowledge, width: int) -> str:
    rules = conflict(wanted, knowledge, width)
    texts = "; ".join(f"{rule.text!r} ({rule.place})" for rule in rules)
    return f"no graph satisfies {'all of: ' if len(rules) > 1 else ''}{texts}"
