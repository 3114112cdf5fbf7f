# SPDX-License-Identifier: Apache-2.0
"""All rules, and the order of what they say: what the tester did wrong, loss, shortage, advice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.analyse import rules_engine as engine
from headrace.analyse import rules_kernel as kernel
from headrace.analyse import rules_machine as machine
from headrace.analyse import rules_offload as offload
from headrace.analyse import rules_pods as pods
from headrace.analyse import rules_study as study
from headrace.analyse.diagnosis import Diagnosis, Rule
from headrace.analyse.rule_evidence import Evidence, EvidencePart

SURROUNDINGS: tuple[Rule, ...] = (
    *machine.RULES,
    *kernel.RULES,
    *study.RULES,
    *pods.RULES,
)
RULES: tuple[Rule, ...] = (*engine.RULES, *offload.RULES, *SURROUNDINGS)


def explain(*evidence: Evidence, rules: Sequence[Rule] = RULES) -> list[Diagnosis]:
    """What each of the evidence says, once. The engine's counters are to be explained of all
    repetitions together; of single trials only what was sampled beside them: SURROUNDINGS."""
    return _ordered(_loudest([d for e in evidence for rule in rules for d in rule(e)]))


def explain_parts(parts: Sequence[EvidencePart]) -> list[Diagnosis]:
    """Explain a study: where it has several deployments, a diagnosis names those that show it."""
    diagnoses: list[Diagnosis] = []
    where: dict[tuple[str, str], list[str]] = {}
    for part in parts:
        for d in explain(*part.evidence, rules=SURROUNDINGS if part.title else RULES):
            diagnoses.append(d)
            where.setdefault((d.rule, d.place), []).append(part.title)
    several = sum(bool(part.title) for part in parts) > 1
    return _ordered(
        d.model_copy(update={"deployments": tuple(filter(None, where[d.rule, d.place]))})
        if several
        else d
        for d in _loudest(diagnoses)
    )


def _loudest(diagnoses: Sequence[Diagnosis]) -> list[Diagnosis]:
    """One voice per rule and place: repetitions of an experiment say the same."""
    best: dict[tuple[str, str], Diagnosis] = {}
    for d in diagnoses:
        key = (d.rule, d.place)
        if key not in best or d.share > best[key].share:
            best[key] = d
    return list(best.values())


def _ordered(diagnoses: Iterable[Diagnosis]) -> list[Diagnosis]:
    return sorted(diagnoses, key=lambda d: (-d.weight, -d.share, d.rule, d.place))
