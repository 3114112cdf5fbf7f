# SPDX-License-Identifier: Apache-2.0
"""All rules, and the order of what they say: what the tester did wrong, loss, shortage, advice."""

from __future__ import annotations

from headrace.explain import engine, kernel, machine
from headrace.explain.diagnosis import Diagnosis, Rule
from headrace.explain.evidence import Evidence

RULES: tuple[Rule, ...] = (*engine.RULES, *machine.RULES, *kernel.RULES)


def explain(evidence: Evidence) -> list[Diagnosis]:
    found = [d for rule in RULES for d in rule(evidence)]
    # One voice per rule and place: repetitions of an experiment say the same.
    best: dict[tuple[str, str], Diagnosis] = {}
    for d in found:
        key = (d.rule, d.place)
        if key not in best or d.share > best[key].share:
            best[key] = d
    return sorted(best.values(), key=lambda d: (-d.weight, -d.share, d.rule, d.place))
