# SPDX-License-Identifier: Apache-2.0
"""A model held against a published table, at the rows that it was not fitted on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from headrace.record.estimates import FittedFigure
from headrace.record.rows import Result


@dataclass(frozen=True)
class FittedResult:
    """A figure of a row. `fitted_on`: it is no prediction."""

    setup: str
    figure: FittedFigure
    fitted_on: bool


@dataclass(frozen=True)
class ModelErrors:
    """Relative, of what was predicted."""

    figure: str
    mean: float
    most: float


def fitted_results(results: Sequence[Result]) -> list[FittedResult]:
    return [
        FittedResult(one.execution, figure, one.ground == "fitted")
        for one in results
        if one.predicted is not None
        for figure in one.predicted.figures
    ]


def model_errors(figures: Sequence[FittedResult]) -> list[ModelErrors]:
    """One for each figure that rows have, in their order."""
    errors: dict[str, list[float]] = {}
    for one in figures:
        if not one.fitted_on:
            errors.setdefault(one.figure.name, []).append(abs(one.figure.error))
    return [ModelErrors(name, mean(those), max(those)) for name, those in errors.items()]
