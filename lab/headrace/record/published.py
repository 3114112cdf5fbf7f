# SPDX-License-Identifier: Apache-2.0
"""What came of fitting a model to a published table."""

from __future__ import annotations

from statistics import mean

from headrace.record.frozen import Record


class FittedPoint(Record):
    """`fitted_on`: it is no prediction."""

    setup: str
    figure: str
    published: float
    predicted: float
    fitted_on: bool = False

    @property
    def error(self) -> float:
        return self.predicted / self.published - 1


class RejectedRow(Record):
    setup: str
    why: str


class FittedTable(Record):
    """headrace fit"""

    name: str
    about: str
    source: str
    server: str
    model: str
    unit: str
    unknowns: dict[str, float]
    free: int  # unknowns of which nothing was known beforehand
    points: tuple[FittedPoint, ...]
    rejected: tuple[RejectedRow, ...] = ()

    def predicted(self, figure: str | None = None) -> tuple[FittedPoint, ...]:
        return tuple(
            one for one in self.points if not one.fitted_on and figure in (None, one.figure)
        )

    def mean_error(self, figure: str | None = None) -> float:
        return mean(abs(one.error) for one in self.predicted(figure))

    def most_error(self, figure: str | None = None) -> float:
        return max(abs(one.error) for one in self.predicted(figure))
