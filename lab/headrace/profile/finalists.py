# SPDX-License-Identifier: Apache-2.0
"""The layouts that are predicted best, run in turn: a prediction of some per cent tells what is
good from what is bad, and a short run which of the good ones is best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from statistics import median

from headrace.layout import cut_search, cuts
from headrace.layout.cuts import Choice
from headrace.layout.layout import Layout, Problem, throughput
from headrace.profile import rounds
from headrace.profile.layout_point import deployed
from headrace.profile.point import Bench
from headrace.profile.rounds import Case
from headrace.spec.document import Document
from headrace.spec.study import Experiment

_MANY = 3
# Run to completion and pipeline, too, where they are predicted to come so near to the best.
_NEAR = 0.85
# By one trial of each start, layouts that are as good as each other lay up to 10 % apart.
_ROUNDS, _TRIALS = 2, 3


def tried(
    bench: Bench,
    doc: Document,
    experiment: Experiment,
    problem: Problem,
    choice: Choice,
    say: Callable[[str], None],
) -> Choice:
    """The best of them; its prediction, and the bound, stay what they are."""
    several = _finalists(problem, choice)
    if len(several) == 1:
        return choice
    cases = {
        one: Case(deployed(bench, doc, experiment, problem, one), less=(), least=_TRIALS)
        for one in several
    }
    rounds.measure(bench, list(cases.values()), _ROUNDS, anew=False)
    rates = {one: median(s.throughput_pps for s in case.samples) for one, case in cases.items()}
    names = [node.name for node in experiment.nodes]
    for one, rate in rates.items():
        predicted = throughput(problem, one)
        say(f"tried: {one.text(names)}: {rate / 1e6:.3g} Mpps, predicted {predicted / 1e6:.3g}")
    best = max(rates, key=lambda one: rates[one])
    how = f"{choice.how}; of the {len(several)} that were tried, the fastest"
    return replace(choice, layout=best, predicted_pps=throughput(problem, best), how=how)


def _finalists(problem: Problem, choice: Choice) -> list[Layout]:
    leading = cut_search.leading(problem, choice, _MANY)
    least = _NEAR * choice.predicted_pps
    usual = (one for one in cuts.usual(problem) if throughput(problem, one) >= least)
    return list(dict.fromkeys((*leading, *usual)))
