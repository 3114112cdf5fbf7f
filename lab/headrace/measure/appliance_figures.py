# SPDX-License-Identifier: Apache-2.0
"""What a point reached for a workload: the median over its repetitions, and how far they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from headrace.ground.appliances.study import Point
from headrace.measure.appliance_measure import Row
from headrace.record.rows import Result

NOTICEABLE = 0.1  # differences below are not called differences on a shared machine


@dataclass(frozen=True)
class Rate:
    """In the unit of its workload."""

    median: float
    low: float
    high: float
    unit: str

    def __str__(self) -> str:
        return f"{_digits(self.median)} {self.unit}"

    @property
    def spread(self) -> float:
        return (self.high - self.low) / self.median if self.median else 0.0

    def above(self, other: Rate) -> bool:
        """By more than what may be chance."""
        return self.low > other.high and self.median >= other.median * (1 + NOTICEABLE)

    def gain(self, over: Rate) -> float:
        return self.median / over.median - 1 if over.median else 0.0


def _digits(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.0f}"


@dataclass(frozen=True)
class Summary:
    """All repetitions of one workload on one point."""

    point: Point
    results: tuple[Result, ...]

    @property
    def rate(self) -> Rate:
        return rate(self.results)

    @property
    def requests_per_s(self) -> float:
        return median(r.application.requests_per_s for r in self.results if r.application)

    @property
    def gbps(self) -> float:
        return median(r.application.gbps for r in self.results if r.application)

    def of_application(self, name: str) -> float | None:
        """The median of a figure that not every workload has."""
        values = [getattr(r.application, name) for r in self.results if r.application]
        known = [value for value in values if value is not None]
        return median(known) if known else None

    @property
    def verdict(self) -> str:
        """Empty when every repetition can be trusted."""
        doubtful = [r.audit.verdict for r in self.results if not r.audit.trusted]
        return doubtful[0] if doubtful else ""

    def latency_ms(self, percentile: str) -> float | None:
        found = [getattr(r.latency_ns, percentile) / 1e6 for r in self.results if r.latency_ns]
        return median(found) if found else None


def rate(results: Sequence[Result]) -> Rate:
    """Goodput; where requests or packets are what counts, those per second."""
    first = results[0]
    if first.intended:
        values, unit = [r.received_pps for r in results], "packets/s"
    elif first.application and first.application.requests and "http" not in first.workload:
        values = [r.application.requests_per_s for r in results if r.application]
        unit = "requests/s"
    else:
        values, unit = [r.application.gbps for r in results if r.application], "Gbit/s"
    return Rate(median(values), min(values), max(values), unit)


def summaries(rows: Sequence[Row]) -> list[Summary]:
    """In the order in which they were measured."""
    found: dict[tuple[int, str], list[Row]] = {}
    for row in rows:
        found.setdefault((id(row.point), row.result.workload), []).append(row)
    return [Summary(some[0].point, tuple(r.result for r in some)) for some in found.values()]
