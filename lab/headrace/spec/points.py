# SPDX-License-Identifier: Apache-2.0
"""A paper's points: groups of experiments, what each needs of a server, what was published."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from headrace.spec.base import FIGURES_PATTERN, NAME_PATTERN, Spec
from headrace.spec.hosting import Count

Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Figures = Annotated[str, Field(pattern=FIGURES_PATTERN)]


class Needs(Spec):
    """What a point asks of a server. `when`: only where the sweep has these values."""

    when: dict[str, Any] = Field(default_factory=dict)
    lcores: Annotated[Count, Field(ge=1)] | None = None
    cores: Annotated[Count, Field(ge=1)] | None = None  # physical ones, traffic's among them
    nodes: Annotated[Count, Field(ge=1)] | None = None
    kvm: Literal[True] | None = None  # virtual machines that are not emulated
    containers: Literal[True] | None = None  # root, and podman or docker
    sriov: Literal[True] | None = None  # a NIC with enough virtual functions for the chains
    never: str | None = None  # why this is not measured on any server


class Published(Spec):
    claim: str
    setup: str
    value: Any


class Group(Spec):
    """A spec as `headrace run` takes it, laid over the file's `base`, and swept.

    `figures` of the paper that its points belong to; 2-7: figures that have them between them.
    """

    about: str
    figures: tuple[Figures, ...] = ()
    spec: dict[str, Any] = Field(default_factory=dict)
    sweep: dict[str, Annotated[tuple[Any, ...], Field(min_length=1)]] = Field(default_factory=dict)
    needs: tuple[Needs, ...] = ()
    published: tuple[Published, ...] = ()

    @property
    def numbers(self) -> frozenset[int]:
        """Of its figures."""
        return frozenset().union(*map(span, self.figures))


def span(figures: str) -> range:
    """Numbers of the figures that a text names: 8, or 2-7."""
    first, _, last = figures.partition("-")
    return range(int(first), int(last or first) + 1)


class PointsFile(Spec):
    name: Name
    paper: str
    base: dict[str, Any]
    groups: Annotated[dict[Name, Group], Field(min_length=1)]


@dataclass(frozen=True)
class Point:
    group: str
    figures: tuple[str, ...]
    name: str
    values: dict[str, Any]
    spec: dict[str, Any]
    skipped: str | None  # why


@dataclass(frozen=True)
class Machine:
    lcores: int
    nodes: int
    no_kvm: Callable[[], str | None] = lambda: None  # why virtual machines are emulated here
    no_containers: Callable[[], str | None] = lambda: None  # why VNFs cannot be in containers
    cores: int | None = None  # physical; None: as many as lcores
    # Why no NIC has virtual functions for a spec's VNFs.
    no_sriov: Callable[[dict[str, Any]], str | None] = lambda _: None


def points(
    file: PointsFile, machine: Machine, wanted: str | None = None, figure: int | None = None
) -> Iterator[Point]:
    """Those of one group, of one figure, or all."""
    for name, group in file.groups.items():
        if wanted in (None, name) and (figure is None or figure in group.numbers):
            yield from _group(file, name, group, machine)


def _group(file: PointsFile, name: str, group: Group, machine: Machine) -> Iterator[Point]:
    for i, combination in enumerate(itertools.product(*group.sweep.values()), 1):
        values = dict(zip(group.sweep, combination, strict=True))
        spec = _over(copy.deepcopy(file.base), group.spec)
        for path, value in values.items():
            _put(spec, path, value)
        spec["name"] = f"{name}-{i}"[:31]
        spec.setdefault("description", group.about)
        reasons = (_lacking(need, values, spec, machine) for need in group.needs)
        reason = next(filter(None, reasons), None)
        yield Point(name, group.figures, spec["name"], values, spec, reason)


def _lacking(
    need: Needs, values: dict[str, Any], spec: dict[str, Any], machine: Machine
) -> str | None:
    if any(values.get(path) != value for path, value in need.when.items()):
        return None
    if need.never:
        return need.never
    if need.lcores is not None and machine.lcores < need.lcores:
        return f"needs {need.lcores} lcores, this machine has {machine.lcores}"
    cores = machine.lcores if machine.cores is None else machine.cores
    if need.cores is not None and cores < need.cores:
        return f"needs {need.cores} physical cores, this machine has {cores}"
    if need.nodes is not None and machine.nodes < need.nodes:
        return f"needs {need.nodes} NUMA nodes, this machine has {machine.nodes}"
    if need.kvm and (problem := machine.no_kvm()) is not None:
        return f"needs KVM: {problem}"
    if need.containers and (problem := machine.no_containers()) is not None:
        return f"needs containers: {problem}"
    if need.sriov and (problem := machine.no_sriov(spec)) is not None:
        return f"needs SR-IOV: {problem}"
    return None


def _over(base: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Mappings are merged, everything else is replaced."""
    for key, value in more.items():
        both = isinstance(value, dict) and isinstance(base.get(key), dict)
        base[key] = _over(base[key], value) if both else copy.deepcopy(value)
    return base


def _put(spec: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for key in parents:
        if not isinstance(spec.get(key), dict):
            spec[key] = {}
        spec = spec[key]
    spec[last] = value
