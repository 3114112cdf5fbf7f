# SPDX-License-Identifier: Apache-2.0
"""What a deployment of VNFs reached for a workload: the median over its repetitions, and how far
they differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from headrace.analyse.summary import key_of
from headrace.record.bundle import Bundle
from headrace.record.deployment import DeployedGraph
from headrace.record.known import known
from headrace.record.rows import Result
from headrace.record.verdict import worst

NOTICEABLE = 0.1  # differences below are not called differences on a shared machine


@dataclass(frozen=True)
class Rate:
    """A rate in the unit of its workload."""

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
        """It is above by more than what may be chance."""
        return self.low > other.high and self.median >= other.median * (1 + NOTICEABLE)

    def gain(self, over: Rate) -> float:
        return self.median / over.median - 1 if over.median else 0.0


def _digits(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.0f}"


@dataclass(frozen=True)
class Reached:
    """All repetitions of one workload on one deployment."""

    deployed: DeployedGraph
    results: tuple[Result, ...]

    @property
    def workload(self) -> str:
        return self.results[0].workload

    @property
    def goal(self) -> str:
        """It has the load, where that was asked for."""
        return key_of(self.results[0]).asked.goal_text

    @property
    def rate(self) -> Rate:
        return rate(self.results)

    @property
    def verdict(self) -> str:
        """Empty when every repetition can be trusted; else the worst."""
        doubtful = [r.audit.verdict for r in self.results if not r.audit.trusted]
        return worst(doubtful) if doubtful else ""


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


def reached(bundle: Bundle) -> list[Reached]:
    """Graphs in the order in which they were measured; none where no graph of VNFs was deployed."""
    graphs = deployed_graphs(bundle)
    first = ((next((g for g in graphs if g.has(one)), None), one) for one in bundle.results())
    return gathered((graph, one) for graph, one in first if graph is not None)


def gathered(results: Iterable[tuple[DeployedGraph, Result]]) -> list[Reached]:
    """Puts repetitions together: results of one deployment, workload and goal, or load."""
    together: dict[tuple[int, str, str], tuple[DeployedGraph, list[Result]]] = {}
    for graph, one in results:
        if one.application is not None:
            key = (id(graph), one.workload, key_of(one).asked.goal_text)
            together.setdefault(key, (graph, []))[1].append(one)
    return [Reached(graph, tuple(several)) for graph, several in together.values()]


def deployed_graphs(bundle: Bundle) -> list[DeployedGraph]:
    """Bundles of an earlier form do not say what VNF each container was: none."""
    return [one.deployed for one in known(bundle).experiments if one.deployed is not None]
