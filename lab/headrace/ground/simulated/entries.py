# SPDX-License-Identifier: Apache-2.0
"""How much state a chain's functions have, as a spec says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.model.popularity import ZipfRanks
from headrace.spec.chain import Node
from headrace.spec.document import Document
from headrace.spec.lines import entries_in
from headrace.spec.study import Experiment
from headrace.spec.workload import Packets


def entries(kind: str, node: Node, experiment: Experiment, doc: Document) -> int:
    """Flows of the traffic; rules or routes of the function, by its file or its list."""
    if kind == "flows":
        return experiment.flows
    given = node.params.get(f"{kind}_file")
    if isinstance(given, str):
        return _lines(doc, given)
    if kind == "routes" and (ranges := node.params.get("ranges")):
        return sum(_count(one) for one in ranges)
    listed = node.params.get(kind)
    return max(1, len(listed)) if isinstance(listed, list | tuple) else 1


def ranks(experiment: Experiment) -> ZipfRanks | None:
    """How often each flow comes; None: all as often."""
    workload = experiment.workload
    if not isinstance(workload, Packets) or workload.flows.order != "zipf":
        return None
    return ZipfRanks(workload.flows.count, workload.flows.zipf_exponent)


def _count(one: Any) -> int:
    count = one.get("count", 1) if isinstance(one, Mapping) else 1
    return count if isinstance(count, int) else 1


def _lines(doc: Document, file: str) -> int:
    try:
        return entries_in(doc.resolve(file))
    except OSError as error:
        raise doc.error((), f"{file}: cannot be read: {error.strerror or error}") from None
