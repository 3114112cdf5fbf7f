# SPDX-License-Identifier: Apache-2.0
"""What a spec came to, for the bundle's resolved.json: whoever analyses results finds there what
their chain, execution and workload stand for. Each ground adds what its points have."""

from __future__ import annotations

from typing import Any

from pydantic import SerializeAsAny

from headrace.record.deployment import DeployedGraph
from headrace.record.frozen import Record
from headrace.record.points import PointRow
from headrace.spec.points import Wanted


class ResolvedPoint(Record):
    """One deployment of a study."""

    chain: str
    execution: str


class ResolvedPath(ResolvedPoint):
    """A server's own path, which `tune` advises on."""

    protocol: str


class ResolvedExperiment(ResolvedPoint):
    workload: str
    study: dict[str, Any]  # as specs have it, with every default written out
    lcores: dict[str, tuple[int, ...]]  # segment: its lcores


class ResolvedMode(ResolvedExperiment):
    """A way to forward for routers. Without its plan: it has all routes, which follow from the
    spec."""

    notes: tuple[str, ...]
    mode: str


class ResolvedSimulation(ResolvedExperiment):
    """A chain on a described server."""

    server: dict[str, Any]  # its description, with every default written out


class ResolvedFit(ResolvedSimulation):
    """A row of a published table, and what the model came to that was fitted to some of them."""

    unknowns: dict[str, float]
    free: int  # unknowns of which nothing was known beforehand
    rejected: dict[str, str]  # rows that an audit would reject, by set-up: why


class ResolvedGraph(DeployedGraph):
    """A graph of third-party VNFs."""

    study: dict[str, Any]
    images: dict[str, str]  # VNF: image


class Resolved(Record):
    """The whole file."""

    inputs: dict[str, str] = {}  # file as the spec names it: its copy, below the bundle
    experiments: tuple[SerializeAsAny[ResolvedPoint | DeployedGraph], ...] = ()
    selection: Wanted | None = None  # which points the user asked for
    points: tuple[PointRow, ...] | None = None  # and what they are
    compared: dict[str, str] | None = None  # of a comparison in turn: side a and b, by their names

    def as_json(self) -> dict[str, Any]:
        return {k: v for k, v in self.model_dump(mode="json").items() if v is not None}
