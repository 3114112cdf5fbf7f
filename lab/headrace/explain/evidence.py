# SPDX-License-Identifier: Apache-2.0
"""What the rules look at: samples of the layers, trials, a stack trace; each may be missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from headrace.bundle import Bundle
from headrace.errors import HeadraceError, bad_value
from headrace.measure.collectors.samples import Samples, Window
from headrace.measure.stack.result import StackTrace
from headrace.record import Measurement, Result, Trial
from headrace.report.document import above
from headrace.spec.invalid import sentence

_EMPTY = Window(0.0, {}, {}, {})
STACK_FILE = "stack.json"


@dataclass(frozen=True)
class Evidence:
    os: Window = _EMPTY
    virtualization: Window = _EMPTY
    virtual_switch: Window = _EMPTY
    hardware: Window = _EMPTY
    stack: StackTrace | None = None
    results: Sequence[Result] = ()
    trials: Sequence[Trial] = ()
    absent: dict[str, str] = field(default_factory=dict)  # layer -> why it was not sampled

    @property
    def repeated(self) -> bool:
        return any(r.repetition > 1 for r in self.results)

    def measurements(self) -> list[tuple[Measurement, Measurement | None]]:
        """Each result, and a trial of the same experiment at a load that it did not carry."""
        return [(r, above(r, self.trials)) for r in self.results]


def of(path: Path) -> Evidence:
    """Of a run bundle, or of a folder that `headrace collect` wrote."""
    if (path / "status.json").is_file():
        bundle = Bundle(path)
        results, trials = bundle.results(), bundle.trials()
        if not results and not trials:
            why = bundle.status.reason or f"its state is {bundle.status.state}"
            raise HeadraceError(f"{path}: no trials to explain: the run measured nothing ({why})")
        return _evidence(path / "samples", results, trials)
    if (path / "collectors.json").is_file():
        return _evidence(path, (), ())
    raise bad_value(
        "BUNDLE",
        str(path),
        allowed="a directory that `headrace run` or `headrace collect` wrote",
    )


def _evidence(folder: Path, results: Sequence[Result], trials: Sequence[Trial]) -> Evidence:
    samples = Samples(folder)
    return Evidence(
        os=samples.window("os"),
        virtualization=samples.window("virtualization"),
        virtual_switch=samples.window("virtual-switch"),
        hardware=samples.window("hardware"),
        stack=_stack(folder / STACK_FILE),
        results=results,
        trials=trials,
        absent=dict(samples.about.get("refused", {})),
    )


def _stack(path: Path) -> StackTrace | None:
    if not path.is_file():
        return None
    try:
        return StackTrace.model_validate_json(path.read_text())
    except ValidationError as error:
        raise bad_value(str(path), problem=sentence(error)) from None
