# SPDX-License-Identifier: Apache-2.0
"""What was deployed for a row of the results, where that is a graph of VNFs and no chain of our
functions: the bundle's resolved.json has it for each point."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field

from headrace.record.frozen import Record
from headrace.record.rows import Measurement

Role = Literal["baseline", "alone", "chain", "scale-out"]


class DeployedNode(Record):
    """One container. `kind`: routed, proxy, leaf, client, server, tester."""

    vnf: str
    kind: str
    addresses: dict[str, str] = Field(default_factory=dict)  # interface: address
    server: str | None = None  # which has it; none: where the lab ran


class DeployedGraph(Record):
    """One deployment. A row is of it that has its chain, execution and one of its workloads."""

    chain: str
    execution: str
    workloads: tuple[str, ...]
    role: Role
    network: str
    graph: dict[str, str | None]  # vertex: the one before it
    categories: dict[str, str] = Field(default_factory=dict)  # vertex: of its VNF
    nodes: dict[str, DeployedNode]
    subject: str = ""  # the VNF that stands alone or is scaled out
    instances: int = 1  # of it
    swept: tuple[tuple[str, Any], ...] = ()

    def kinds(self, *among: str) -> dict[str, str]:
        """Container -> VNF; of these kinds, or of all."""
        return {n: one.vnf for n, one in self.nodes.items() if not among or one.kind in among}

    def has(self, row: Measurement) -> bool:
        return (row.chain, row.execution) == (self.chain, self.execution) and (
            row.workload in self.workloads
        )


def swept_text(swept: Iterable[tuple[str, Any]]) -> str:
    """What tells a point of a sweep from the others, behind its workload's text."""
    return "".join(f" {path}={value}" for path, value in swept)
