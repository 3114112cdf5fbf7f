# SPDX-License-Identifier: Apache-2.0
"""A study: what one spec file says, and the experiments that its sweeps expand to."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, model_validator

from headrace.spec import document
from headrace.spec.base import NAME_PATTERN, Seconds, Spec
from headrace.spec.chain import Chain, Node, check_chain
from headrace.spec.collect import Collect
from headrace.spec.deployment import Deployment, Execution
from headrace.spec.document import Document, PathKey
from headrace.spec.imix import Frame
from headrace.spec.invalid import explain
from headrace.spec.measure import Measure, Repetitions
from headrace.spec.workload import Workload

EXPERIMENTS_MAX = 10_000

Name = Annotated[str, Field(pattern=NAME_PATTERN)]


class Study(Spec):
    name: Name
    description: str = ""
    chain: Chain | None = None
    chains: Annotated[dict[Name, Chain], Field(min_length=1)] | None = None
    deployment: Deployment = Deployment()
    workload: Workload = Workload()
    measure: Measure = Field(default_factory=lambda: Measure.model_validate({}))
    repetitions: Repetitions = 1
    warmup: Annotated[Seconds, Field(ge=0, le=3600)] = 1.0
    collect: Collect = Field(default_factory=lambda: Collect(layers=()))
    sweep: dict[str, tuple[Any, ...]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_kind_of_chain(self) -> Study:
        if (self.chain is None) == (self.chains is None):
            raise ValueError(
                "give `chain` (a list of functions; [] is the empty chain) or `chains` (by name)"
            )
        return self

    def by_name(self) -> dict[str, tuple[Node, ...]]:
        return self.chains if self.chains is not None else {self.name: self.chain or ()}


@dataclass(frozen=True)
class Experiment:
    """One point of a study: one chain, one execution, one frame mix."""

    chain: str
    nodes: tuple[Node, ...]
    execution: Execution
    frame: Frame
    study: Study  # as this point of the sweep has it
    point: tuple[tuple[str, Any], ...]  # the sweep's values here
    node_paths: tuple[tuple[PathKey, ...], ...]  # where each node stands in the file
    captured_bytes: int = 0  # the largest packet of the capture that is replayed, without FCS

    @property
    def workload_name(self) -> str:
        """Frame size or mix, direction unless forward, and whatever the sweep set."""
        workload = self.study.workload
        parts = [f"{self.frame.name}B" if self.frame.name.isdigit() else self.frame.name]
        if workload.pcap is not None:
            parts = [f"pcap:{workload.pcap.name}"]
        elif workload.tuples_file is not None:
            parts.append(f"tuples:{workload.tuples_file.name}")
        else:
            parts.append(f"{workload.flows.count} flows")
        if workload.direction != "forward":
            parts.append(workload.direction)
        parts += [f"{path}={value}" for path, value in self.point]
        return " ".join(parts)


def load_study(file: Path) -> tuple[Document, list[Experiment]]:
    """Read a spec file and expand it; BadInput names file, line, path, value, what is allowed."""
    doc = document.load(file)
    return doc, list(expand(doc))


def expand(doc: Document) -> Iterator[Experiment]:
    if not isinstance(doc.data, dict):
        raise doc.error((), "a spec is a mapping; allowed keys: " + ", ".join(Study.model_fields))
    if isinstance(doc.data.get("workload"), list):
        raise doc.error(
            ("workload",),
            "is a list, which VNFs in containers take (`deployment: {hosting: container}` with "
            "appliances); allowed here: a mapping, whose frame may be a list: {frame: [64, 128]}",
        )
    points = sweep_points(doc)
    for point in points:
        study = _validate(doc, point)
        for name, nodes in study.by_name().items():
            check_chain(doc, nodes, _node_paths(study, name, doc))
            for execution in study.deployment.execution:
                check_execution(doc, execution, nodes, study)
                for frame in study.workload.frame:
                    yield Experiment(
                        name, nodes, execution, frame, study, point, _node_paths(study, name, doc)
                    )


def sweep_points(doc: Document) -> list[tuple[tuple[str, Any], ...]]:
    """Each combination of the sweep's values."""
    sweep = doc.data.get("sweep") or {}
    if not isinstance(sweep, dict):
        raise doc.error(("sweep",), "allowed: {path: [values]}", value=sweep)
    total = 1
    for path, values in sweep.items():
        if not isinstance(values, list) or not values:
            raise doc.error(("sweep", path), "allowed: a list of values", value=values)
        total *= len(values)
        if total > EXPERIMENTS_MAX:
            raise doc.error(("sweep",), f"more than {EXPERIMENTS_MAX} combinations")
    choices = [[(str(path), value) for value in values] for path, values in sweep.items()]
    return [tuple(combination) for combination in itertools.product(*choices)]


def _validate(doc: Document, point: tuple[tuple[str, Any], ...]) -> Study:
    data = copy.deepcopy(doc.data)
    for path, value in point:
        _override(doc, data, path, value)
    try:
        return Study.model_validate(data)
    except ValidationError as error:
        swept = [path for path, _ in point]
        raise explain(doc, error, Study, data, swept) from None


def _override(doc: Document, data: Any, path: str, value: Any) -> None:
    """Set the value at a dotted path; functions of a chain are reached by name."""
    keys = path.split(".")
    where = data
    for depth, key in enumerate(keys):
        last = depth == len(keys) - 1
        if isinstance(where, list):
            where, done = _enter_chain(where, key, value, last)
            if done:
                return
            if where is not None:
                continue
            raise doc.error(("sweep", path), f"there is no function {key!r}")
        if not isinstance(where, dict):
            raise doc.error(("sweep", path), f"{'.'.join(keys[:depth])} has no parts")
        if last:
            where[key] = value
            return
        if where.get(key) is None:
            where[key] = {}
        where = where[key]


def _enter_chain(nodes: list[Any], key: str, value: Any, last: bool) -> tuple[Any, bool]:
    for i, node in enumerate(nodes):
        if isinstance(node, str) and node == key:
            node = nodes[i] = {key: {}}
        if not isinstance(node, dict):
            continue
        if key in node and "nf" not in node:
            if last:
                node[key] = value
                return None, True
            node[key] = node[key] or {}
            return node[key], False
        if key in (node.get("name"), node.get("nf")):
            if last:
                node["params"] = value
                return None, True
            return node.setdefault("params", {}), False
    return None, False


def check_execution(
    doc: Document, execution: Execution, nodes: tuple[Node, ...], study: Study
) -> None:
    """Explicit segments partition the chain in its order; functions side by side are neighbours."""
    wanted = [node.name for node in nodes]
    index = study.deployment.execution.index(execution)
    given = doc.data.get("deployment", {}).get("execution")
    path: tuple[PathKey, ...] = ("deployment", "execution")
    path += (index,) if isinstance(given, list) else ()
    if execution.parallel is not None:
        _check_parallel(doc, (*path, "parallel"), list(execution.parallel), wanted, study)
    if execution.segments is None:
        return
    got = [name for segment in execution.segments for name in segment]
    if wanted != got:
        raise doc.error(
            (*path, "segments"),
            f"the segments must hold the chain's functions, each once and in order: {wanted}",
            value=[list(segment) for segment in execution.segments],
        )


def _check_parallel(
    doc: Document, at: tuple[PathKey, ...], group: list[str], chain: list[str], study: Study
) -> None:
    """What their functions do to packets is the engine's to judge (docs/design/parallel.md)."""
    first = chain.index(group[0]) if group[0] in chain else 0
    if chain[first : first + len(group)] != group:
        raise doc.error(
            at,
            f"allowed: functions that follow each other, in the chain's order: {chain}",
            value=group,
        )
    if study.workload.direction != "forward":
        raise doc.error(
            at,
            f"functions side by side see forward traffic only, and workload.direction is "
            f"{study.workload.direction}; allowed: forward",
        )
    if study.deployment.hosting.kind != "inline":
        raise doc.error(
            at,
            f"the chain's hosting is {study.deployment.hosting.kind}; allowed: inline, as "
            "functions side by side are in one process",
        )


def _node_paths(study: Study, chain: str, doc: Document) -> tuple[tuple[PathKey, ...], ...]:
    """Where each node's parameters stand in the file."""
    base: tuple[PathKey, ...] = ("chain",) if study.chain is not None else ("chains", chain)
    data = doc.data.get("chain") if study.chain is not None else doc.data["chains"].get(chain)
    paths: list[tuple[PathKey, ...]] = []
    for i, node in enumerate(study.by_name()[chain]):
        item = data[i] if isinstance(data, list) and i < len(data) else None
        long_form = isinstance(item, dict) and "nf" in item
        paths.append((*base, i, "params" if long_form else node.nf))
    return tuple(paths)
