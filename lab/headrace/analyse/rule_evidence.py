# SPDX-License-Identifier: Apache-2.0
"""What the rules look at: samples of the layers, trials, a stack trace; each may be missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from headrace.analyse.appliances import compared_in
from headrace.analyse.beside import Compared
from headrace.analyse.bundle_report import ASKED, above, above_each, primary_results
from headrace.analyse.convergence import Converged, converged
from headrace.analyse.reached import reached
from headrace.analyse.summary import summarise
from headrace.collect.samples import Samples, Window
from headrace.collect.stack.result import StackTrace
from headrace.collect.watch import stack_file, trial_times
from headrace.errors import HeadraceError, bad_value
from headrace.record.bundle import Bundle
from headrace.record.convergence import old_changes
from headrace.record.own import sample_record
from headrace.record.pods import PODS, DeployedPodPlaces, PodPlace
from headrace.record.points import PointRow, points_of
from headrace.record.rows import Measurement, Result, Trial

_EMPTY = Window(0.0, {}, {}, {})


class Repeated(NamedTuple):
    """Repetitions of an experiment, and trials of theirs at loads that it did not carry."""

    results: Sequence[Result]
    above: Sequence[Measurement]


@dataclass(frozen=True)
class Evidence:
    os: Window = _EMPTY
    virtualization: Window = _EMPTY
    virtual_switch: Window = _EMPTY
    hardware: Window = _EMPTY
    stack: StackTrace | None = None
    results: Sequence[Result] = ()
    trials: Sequence[Trial] = ()
    compared: tuple[Compared, ...] = ()
    converged: tuple[Converged, ...] = ()  # of a study of routing daemons
    absent: dict[str, str] = field(default_factory=dict)  # layer -> why it was not sampled
    layers: tuple[str, ...] = ()  # that were sampled
    pods: Mapping[str, Mapping[str, PodPlace]] = field(default_factory=dict)  # by deployment
    points: Sequence[PointRow] = ()  # of a study with groups
    unfinished: str | None = None  # the run, and why

    @property
    def repeated(self) -> bool:
        return any(r.repetition > 1 for r in self.results)

    def measurements(self) -> list[tuple[Measurement, Measurement | None]]:
        """Each result, and a trial of the same experiment at a load that it did not carry."""
        return [(r, above(r, self.trials)) for r in self.results]

    def experiments(self) -> list[Repeated]:
        """The same with all repetitions together, as a report has them."""
        each = [s.results for s in summarise(self.results)]
        return [Repeated(results, above_each(results, self.trials)) for results in each]


@dataclass(frozen=True)
class EvidencePart:
    """One deployment of a study, and what is known of each of its trials; without a title: what
    is known of the whole."""

    title: str
    evidence: tuple[Evidence, ...]


def parts(path: Path) -> list[EvidencePart]:
    """A run bundle's, whose deployments may each have a folder of samples, or those of a folder
    that `headrace collect` wrote."""
    whole = of(path)
    below = sorted(p for p in (path / "samples").glob("[0-9]*") if p.is_dir())
    deployments = [deployment(folder, whole.results) for folder in below]
    measured = [part for part in deployments if any(e.results for e in part.evidence)]
    return [EvidencePart("", (whole,)), *(measured or deployments)]  # not where no trial ended


def deployment(folder: Path, of_study: Sequence[Result]) -> EvidencePart:
    """Goes by its folder of samples: each trial by those at its ends, or the whole where none is
    noted that has a result."""
    samples, results = Samples(folder), {r.trial: r for r in of_study}
    whole = _evidence(folder, samples)
    evidence = tuple(
        _within(
            replace(
                whole,
                results=[results[t.trial]],
                stack=sample_record(folder, stack_file(t.trial), StackTrace) or whole.stack,
            ),
            samples,
            t.begin_ns,
            t.end_ns,
        )
        for t in trial_times(folder)
        if t.trial in results
    ) or (whole,)
    first = next((r for e in evidence for r in e.results), None)
    title = folder.name if first is None else f"{first.execution}, {first.chain}"
    return EvidencePart(title, evidence)


def of(path: Path) -> Evidence:
    """What is known of a whole run bundle, or of a folder that `headrace collect` wrote."""
    if (path / "status.json").is_file():
        bundle = Bundle(path)
        rows, trials = bundle.results(), bundle.trials()
        results = primary_results(rows)
        unfinished = bundle.status.unfinished
        changes = [one.change for one in rows if one.change is not None]
        settled = tuple(converged(changes or old_changes(path)))
        if not settled and not rows and not any(t.phase in (*ASKED, "max") for t in trials):
            why = unfinished or "its state is complete"
            raise HeadraceError(f"{path}: no trials to explain: nothing was measured: {why}")
        folder = path / "samples"
        known = _evidence(folder, Samples(folder), results, trials)
        compared = compared_in(bundle, reached(bundle))
        return replace(
            known,
            compared=compared,
            converged=settled,
            unfinished=unfinished,
            points=points_of(bundle),
        )
    if (samples := Samples(path)).present:
        return _evidence(path, samples)
    raise bad_value(
        "BUNDLE",
        str(path),
        allowed="a directory that `headrace run` or `headrace collect` wrote",
    )


def _evidence(
    folder: Path,
    samples: Samples,
    results: Sequence[Result] = (),
    trials: Sequence[Trial] = (),
) -> Evidence:
    pods = sample_record(folder, PODS, DeployedPodPlaces)
    known = Evidence(
        pods={} if pods is None else pods.root,
        stack=sample_record(folder, stack_file(), StackTrace),
        results=results,
        trials=trials,
        absent=samples.refused,
        layers=tuple(samples.layers),
    )
    return _within(known, samples)


def _within(
    known: Evidence, samples: Samples, begin_ns: int = 0, end_ns: int | None = None
) -> Evidence:
    return replace(
        known,
        os=samples.window("os", begin_ns, end_ns),
        virtualization=samples.window("virtualization", begin_ns, end_ns),
        virtual_switch=samples.window("virtual-switch", begin_ns, end_ns),
        hardware=samples.window("hardware", begin_ns, end_ns),
    )
