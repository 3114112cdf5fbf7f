# SPDX-License-Identifier: Apache-2.0
"""Groups of a study's points: what each lays over the study, sweeps and needs of a server, and
what was published of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from headrace.spec.base import FIGURES_PATTERN, NAME_PATTERN, Count, Spec

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
    cluster: Literal[True] | None = None  # Kubernetes, with a node that is ready
    root: Literal[True] | None = None
    vfio: Literal[True] | None = None  # the driver vfio-pci, and an IOMMU
    vhost_net: Literal[True] | None = None  # the kernel moves packets of virtual machines
    gigabyte_pages: Annotated[Count, Field(ge=1)] | None = None  # free hugepages of 1 GB
    vpp: Literal[True] | None = None  # a program of it, for the engine of that name
    interfaces: Literal[True] | None = None  # the kernel's, that its testbed's ports name
    calibration: Literal[True] | None = None  # of this server, as `server calibrate` leaves it
    # That it runs: no prediction is made of it; a text says what no description has.
    deployed: Literal[True] | Annotated[str, Field(min_length=1)] | None = None
    never: str | None = None  # why this is not measured on any server


class Published(Spec):
    """What a paper says of a group. `at`: the point that a number is of, by values of the sweep, so
    that it is drawn among the points' `figure`."""

    claim: str
    setup: str
    value: Any
    at: dict[str, Any] = Field(default_factory=dict)
    figure: Literal["throughput_gbps", "loss", "latency_us"] = "throughput_gbps"


class Quick(Spec):
    """What `run --quick` lays over a group, and the values of its sweep that are left then."""

    spec: dict[str, Any] = Field(default_factory=dict)
    sweep: dict[str, tuple[Any, ...]] = Field(default_factory=dict)


class Group(Spec):
    """Part of a study, laid over the study's own keys, and swept.

    `figures` of the paper that its points belong to; 2-7: figures that have them between them.
    """

    about: str
    figures: tuple[Figures, ...] = ()
    spec: dict[str, Any] = Field(default_factory=dict)
    sweep: dict[str, Annotated[tuple[Any, ...], Field(min_length=1)]] = Field(default_factory=dict)
    needs: tuple[Needs, ...] = ()
    quick: Quick = Quick()
    published: tuple[Published, ...] = ()

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers of its figures."""
        return frozenset().union(*map(span, self.figures))


def span(figures: str) -> range:
    """Numbers of the figures that a text names: 8, or 2-7."""
    first, _, last = figures.partition("-")
    return range(int(first), int(last or first) + 1)


@dataclass(frozen=True)
class Machine:
    lcores: int
    nodes: int
    no_kvm: Callable[[], str | None] = lambda: None  # why virtual machines are emulated here
    no_containers: Callable[[], str | None] = lambda: None  # why VNFs cannot be in containers
    cores: int | None = None  # physical; None: as many as lcores
    no_calibration: Callable[[], str | None] = lambda: None
    # Why no NIC has virtual functions for a spec's VNFs.
    no_sriov: Callable[[dict[str, Any]], str | None] = lambda _: None
    not_deployed: str | None = None  # why nothing runs: it is described
    not_root: str | None = None
    no_vfio: Callable[[], str | None] = lambda: None
    no_vhost_net: Callable[[], str | None] = lambda: None
    no_gigabyte_pages: Callable[[int], str | None] = lambda _: None  # so many
    no_cluster: Callable[[], str | None] = lambda: None
    # Why there is no VPP for a spec's engine.
    no_vpp: Callable[[dict[str, Any]], str | None] = lambda _: None
    # Why a port of a spec's testbed is not there.
    no_interfaces: Callable[[dict[str, Any]], str | None] = lambda _: None


def lacking(
    need: Needs, values: dict[str, Any], spec: dict[str, Any], machine: Machine
) -> str | None:
    """Says why this machine cannot have a point with these values of the sweep; None: it can."""
    if any(values.get(path) != value for path, value in need.when.items()):
        return None
    if need.never:
        return need.never
    if need.deployed and machine.not_deployed is not None:
        why = f" (cannot predict: {need.deployed})" if isinstance(need.deployed, str) else ""
        return f"is measured only, and {machine.not_deployed}{why}"
    if need.lcores is not None and machine.lcores < need.lcores:
        return f"needs {need.lcores} lcores, this machine has {machine.lcores}"
    cores = machine.lcores if machine.cores is None else machine.cores
    if need.cores is not None and cores < need.cores:
        return f"needs {need.cores} physical cores, this machine has {cores}"
    if need.nodes is not None and machine.nodes < need.nodes:
        return f"needs {need.nodes} NUMA nodes, this machine has {machine.nodes}"
    return "; ".join(_means(need, spec, machine)) or None


def _means(need: Needs, spec: dict[str, Any], machine: Machine) -> Iterator[str]:
    """What kernel, devices and rights do not give; each is asked for only if it is needed."""
    asked: tuple[tuple[object, str, Callable[[], str | None]], ...] = (
        (need.root, "root", lambda: machine.not_root),
        (need.kvm, "KVM", machine.no_kvm),
        (need.vhost_net, "vhost-net", machine.no_vhost_net),
        (need.containers, "containers", machine.no_containers),
        (need.calibration, "a calibration", machine.no_calibration),
        (need.sriov, "SR-IOV", lambda: machine.no_sriov(spec)),
        (need.vpp, "VPP", lambda: machine.no_vpp(spec)),
        (need.interfaces, "interfaces", lambda: machine.no_interfaces(spec)),
        (need.cluster, "a cluster", machine.no_cluster),
        (need.vfio, "vfio", machine.no_vfio),
        (
            need.gigabyte_pages,
            "hugepages of 1 GB",
            lambda: machine.no_gigabyte_pages(need.gigabyte_pages or 0),
        ),
    )
    for wanted, what, why_not in asked:
        if wanted and (problem := why_not()) is not None:
            yield f"needs {what}: {problem}"
