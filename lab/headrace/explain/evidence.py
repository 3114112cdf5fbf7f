# SPDX-License-Identifier: Apache-2.0
"""What the rules look at: samples of the layers, trials, a stack trace; each may be missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from headrace.bundle import Bundle
from headrace.errors import HeadraceError, bad_value
from headrace.measure.collectors.samples import Samples, Window
from headrace.measure.collectors.watch import trial_times
from headrace.measure.stack.result import StackTrace
from headrace.record import Measurement, Result, Trial
from headrace.report.document import above
from headrace.spec.invalid import sentence

_EMPTY = Window(0.0, {}, {}, {})
STACK_FILE = "stack.json"
COMPARED_FILE = "bottleneck.json"


class Compared(BaseModel):
    """What a study's deployments say beside each other: its bottleneck on a network, under a
    workload, and why. `doubtful`: some of the measurements are suspect."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    network: str
    workload: str
    vnf: str | None
    sentences: tuple[str, ...]
    doubtful: bool = False


_COMPARED = TypeAdapter(tuple[Compared, ...])


def write_compared(found: Sequence[Compared]) -> str:
    return _COMPARED.dump_json(tuple(found), indent=1).decode() + "\n"


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
    absent: dict[str, str] = field(default_factory=dict)  # layer -> why it was not sampled

    @property
    def repeated(self) -> bool:
        return any(r.repetition > 1 for r in self.results)

    def measurements(self) -> list[tuple[Measurement, Measurement | None]]:
        """Each result, and a trial of the same experiment at a load that it did not carry."""
        return [(r, above(r, self.trials)) for r in self.results]


@dataclass(frozen=True)
class Part:
    """One deployment of a study, and what is known of each of its trials; without a title: what
    is known of the whole."""

    title: str
    evidence: tuple[Evidence, ...]


def parts(path: Path) -> list[Part]:
    """Of a run bundle, whose deployments may each have a folder of samples, or of a folder that
    `headrace collect` wrote."""
    whole = of(path)
    below = sorted(p for p in (path / "samples").glob("[0-9]*") if p.is_dir())
    found = [deployment(folder, whole.results) for folder in below]
    measured = [part for part in found if any(e.results for e in part.evidence)]
    return [Part("", (whole,)), *(measured or found)]  # not where no trial ended


def deployment(folder: Path, of_study: Sequence[Result]) -> Part:
    """By its folder of samples: each trial by those at its ends, or the whole where none is noted
    that has a result."""
    results = {r.trial: r for r in of_study}
    evidence = tuple(
        _evidence(folder, results=[results[t.trial]], window=(t.begin_ns, t.end_ns))
        for t in trial_times(folder)
        if t.trial in results
    ) or (_evidence(folder),)
    first = next((r for e in evidence for r in e.results), None)
    title = folder.name if first is None else f"{first.execution}, {first.chain}"
    return Part(title, evidence)


def of(path: Path) -> Evidence:
    """What is known of a whole run bundle, or of a folder that `headrace collect` wrote."""
    if (path / "status.json").is_file():
        bundle = Bundle(path)
        results, trials = bundle.results(), bundle.trials()
        if not results and not trials:
            why = bundle.status.reason or f"its state is {bundle.status.state}"
            raise HeadraceError(f"{path}: no trials to explain: the run measured nothing ({why})")
        return _evidence(path / "samples", results, trials)
    if (path / "collectors.json").is_file():
        return _evidence(path)
    raise bad_value(
        "BUNDLE",
        str(path),
        allowed="a directory that `headrace run` or `headrace collect` wrote",
    )


def _evidence(
    folder: Path,
    results: Sequence[Result] = (),
    trials: Sequence[Trial] = (),
    window: tuple[int, int | None] = (0, None),
) -> Evidence:
    samples = Samples(folder)
    return Evidence(
        os=samples.window("os", *window),
        virtualization=samples.window("virtualization", *window),
        virtual_switch=samples.window("virtual-switch", *window),
        hardware=samples.window("hardware", *window),
        stack=_stack(folder / STACK_FILE),
        results=results,
        trials=trials,
        compared=_compared(folder / COMPARED_FILE),
        absent=dict(samples.about.get("refused", {})),
    )


def _stack(path: Path) -> StackTrace | None:
    if not path.is_file():
        return None
    try:
        return StackTrace.model_validate_json(path.read_text())
    except ValidationError as error:
        raise bad_value(str(path), problem=sentence(error)) from None


def _compared(path: Path) -> tuple[Compared, ...]:
    if not path.is_file():
        return ()
    try:
        return _COMPARED.validate_json(path.read_text())
    except ValidationError as error:
        raise bad_value(str(path), problem=sentence(error)) from None
