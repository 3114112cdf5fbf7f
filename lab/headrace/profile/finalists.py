# SPDX-License-Identifier: Apache-2.0
"""The layouts that are predicted best race each other: a prediction of some per cent tells what is
good from what is bad, and short runs which of the good ones is best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from statistics import median

from headrace.layout import cut_search, cuts
from headrace.layout.cuts import Choice
from headrace.layout.layout import Layout, Problem, throughput
from headrace.profile import race, rounds
from headrace.profile.layout_point import deployed, told
from headrace.profile.point import Bench
from headrace.profile.race import Race
from headrace.spec.document import Document
from headrace.spec.study import Experiment

_MANY = 4
# Run to completion, pipeline and what the spec has, too, where they are predicted to come so near
# to the best.
_NEAR = 0.85
# Of each start: what another trial costs is a quarter of another start.
_TRIALS = 2
# The race ends by then; who asks for few repetitions has fewer starts.
_STARTS, _STARTS_EACH, _SECONDS = 24, 12, 45.0


def tried(
    bench: Bench,
    doc: Document,
    experiment: Experiment,
    problem: Problem,
    choice: Choice,
    say: Callable[[str], None],
) -> Choice:
    """The best of them; its prediction, and the bound, stay what they are."""
    several = _finalists(experiment, problem, choice)
    if len(several) == 1:
        return choice
    ready = {one: deployed(bench, doc, experiment, problem, one) for one in several}

    def start(one: Layout, _turn: int) -> float | None:
        return rounds.carried(bench, ready[one], _TRIALS)

    until = bench.worked_s() + _SECONDS
    running = Race[Layout]({one: {} for one in several})
    most = min(_STARTS, _STARTS_EACH * bench.repetitions)
    best = running.run(start, most, lambda: bench.worked_s() > until)
    names = [node.name for node in experiment.nodes]
    for one, rates in running.rates.items():
        say(f"tried: {one.text(names)}: {_told(one, best, running)}, {_predicted(problem, one)}")
        if not rates:
            say("  the hypervisor had lcores elsewhere than when costs were taken, all the time")
    how = f"{choice.how}; of the {len(several)} that were tried, the fastest"
    return replace(choice, layout=best, predicted_pps=throughput(problem, best), how=how)


def _told(one: Layout, best: Layout, running: Race[Layout]) -> str:
    rates = running.rates[one].values()
    if not rates:
        return "not known"
    text = f"{median(rates) / 1e6:.3g} Mpps in {len(rates)} starts"
    ahead = None if one == best else race.lead(one, best, running.rates)
    if ahead is None:
        return text
    return f"{text}, {ahead.over:.3f} ({ahead.least:.3f} to {ahead.most:.3f}) of the fastest's"


def _predicted(problem: Problem, one: Layout) -> str:
    return f"predicted {throughput(problem, one) / 1e6:.3g}"


def _finalists(experiment: Experiment, problem: Problem, choice: Choice) -> list[Layout]:
    """The likeliest first."""
    leading = cut_search.leading(problem, choice, _MANY)
    least = _NEAR * choice.predicted_pps
    usual = [*cuts.usual(problem), told(experiment, problem)]
    near = (one for one in usual if one is not None and throughput(problem, one) >= least)
    return list(dict.fromkeys((*leading, *near)))
