# SPDX-License-Identifier: Apache-2.0
"""The points of a study with groups: which of them are wanted, which this machine can have, and
what came of them, beside what was published."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from rich.console import Console

from headrace.analyse.units import flow, plural
from headrace.cli._console import print_json, stdout
from headrace.engine.place import usable_cpus
from headrace.errors import BadInput, HeadraceError
from headrace.ground.contract import Checked
from headrace.ground.hosted.container import no_containers
from headrace.ground.hosted.cpus import describe_cpu
from headrace.ground.hosted.sriov import no_functions
from headrace.ground.hosted.vhost_net import no_vhost_net
from headrace.ground.hosted.vm_accel import no_kvm
from headrace.ground.wired.devices import no_interfaces
from headrace.host import store
from headrace.host.hugepages import no_gigabyte_pages
from headrace.host.sriov import no_vfio
from headrace.host.store import server_named
from headrace.record.bundle import BundleWriter
from headrace.record.outputs import ListedPoint, PointList
from headrace.record.points import POINTS_FILE, PointRow, PointRows
from headrace.record.resolved import Resolved
from headrace.spec.described import DescribedServer
from headrace.spec.document import Document
from headrace.spec.group import Machine, span
from headrace.spec.kubernetes import Kubernetes
from headrace.spec.points import StudyPoint, Wanted, has_groups, points
from headrace.spec.server_file import read_server
from headrace.spec.study import Study, ground_of, read, studies

Check = Callable[[Document], Checked]


@dataclass
class Chosen:
    """Points of one study that are wanted; `failed`: why some of them could not be checked."""

    study: Study
    wanted: Wanted
    points: Sequence[StudyPoint]
    failed: dict[str, str] = field(default_factory=dict)
    mistaken: set[str] = field(default_factory=set)  # of these, those that are the spec's fault,
    # and not this machine's

    @property
    def possible(self) -> list[StudyPoint]:
        return [point for point in self.points if not point.skipped]

    @property
    def had(self) -> str:
        ground = self.study.ground
        return "predicted" if ground is not None and ground.computed else "measured here"

    def checked(self, check: Check, *, all_right: bool) -> Checked:
        """Checks them as one study. `all_right`: a point with a mistake ends it; else the others go
        on."""
        if not self.study.groups:
            checked = check(self.points[0].doc)
            return checked if self.wanted.point is None else numbered(checked, self.wanted.point)
        return self._together(list(self._each(check, all_right)))

    def _together(self, each: Sequence[Checked]) -> Checked:
        if each:
            return _together(each)
        if not self.failed:
            reasons = dict.fromkeys(point.skipped for point in self.points)
            why = f": {next(iter(reasons))}" if len(reasons) == 1 else "; --list says why"
            raise HeadraceError(f"{self.study.name}: none of the points can be {self.had}{why}")
        (point, why), *others = self.failed.items()
        more = f" (and {plural(len(others), 'more point')} cannot be had)" if others else ""
        kind = BadInput if self.mistaken else HeadraceError
        raise kind(f"{self.study.name}: {point}: {why}{more}")

    def _each(self, check: Check, all_right: bool) -> Iterator[Checked]:
        for point in self.possible:
            try:
                yield check(point.doc)
            except HeadraceError as error:
                if all_right:
                    raise
                self.failed[point.name] = str(error)
                if isinstance(error, BadInput):
                    self.mistaken.add(point.name)

    def resolved(self) -> Resolved:
        """Tells the bundle which points these were, and why some are not among them."""
        if not self.study.groups:
            return Resolved(selection=self.wanted if self.wanted != Wanted() else None)
        return Resolved(selection=self.wanted, points=self.rows())

    def rows(self) -> tuple[PointRow, ...]:
        return tuple(
            PointRow(
                group=point.group,
                figures=point.figures,
                point=point.name,
                values=point.values,
                skipped=point.skipped,
                failed=self.failed.get(point.name),
            )
            for point in self.points
        )

    def keep(self, bundle: BundleWriter, failed: Mapping[str, str]) -> None:
        """What became of each point, for the report."""
        self.failed.update(failed)
        if self.study.groups:
            bundle.sample(POINTS_FILE, PointRows.dump_json(self.rows(), indent=2).decode() + "\n")

    def complain(self) -> None:
        if self.failed:
            raise HeadraceError(
                f"{len(self.failed)} of {len(self.points)} points failed: {', '.join(self.failed)}"
            )


def numbered(checked: Checked, number: str) -> Checked:
    """One point of a study that has no groups, and so no names of its points."""
    return replace(checked, points=[checked.points[number_of(number, len(checked.points)) - 1]])


def number_of(given: str, count: int) -> int:
    if not given.isascii() or not given.isdigit() or not 1 <= int(given) <= count:
        raise BadInput(f"--point: got {given}; allowed: 1 to {count}, as the study has no groups")
    return int(given)


@cache
def this_machine() -> Machine:
    cpus = usable_cpus()
    described = [describe_cpu(cpu) for cpu in cpus]
    nodes, cores = len({cpu.node for cpu in described}), len({cpu.core for cpu in described})
    return Machine(
        len(cpus), nodes, no_kvm, no_containers, cores, no_calibration, no_functions,
        not_root="run it with sudo" if os.geteuid() else None, no_vfio=no_vfio,
        no_vhost_net=no_vhost_net, no_gigabyte_pages=no_gigabyte_pages, no_cluster=no_cluster,
        no_vpp=no_vpp, no_interfaces=no_interfaces,
    )  # fmt: skip


def machine_of(doc: Document) -> Machine:
    """This one, or the described one that the study runs on."""
    asked = ground_of(doc)
    if asked is None:
        return this_machine()
    if not asked.computed:
        return cluster()
    return described_machine(read_server(server_named(doc, asked.server))[1])


def cluster() -> Machine:
    """Containers are pods, and need none here."""
    return replace(this_machine(), no_containers=lambda: None)


def described_machine(server: DescribedServer) -> Machine:
    """What no prediction is made for is refused by the ground, with its key."""

    def none() -> str:
        return f"{server.name} is a described server"

    def no_functions(_: dict[str, Any]) -> str | None:
        return None if server.ports else f"{server.name} has no ports"

    return Machine(
        len(server.cpus), server.sockets, none, lambda: None, server.cores, none, no_functions,
        none(), no_cluster=none, no_vpp=lambda _: none(),
    )  # fmt: skip


@cache
def no_cluster() -> str | None:
    from headrace.ground.kubernetes.nodes import ClusterNodes  # half a second to load

    return ClusterNodes(Kubernetes()).lacking()


def no_vpp(spec: dict[str, Any]) -> str | None:
    from headrace.ground.engines import vpp  # which takes apart frames, by a library

    return vpp.no_vpp(spec)


def no_calibration() -> str | None:
    if store.calibration() is not None:
        return None
    return "`headrace server calibrate` has not been run on this server"


def chosen(doc: Document, wanted: Wanted, machine: Machine | None = None) -> Chosen:
    every = points(doc, machine or machine_of(doc), wanted)
    return Chosen(read(doc) if has_groups(doc) else next(studies(doc))[0], wanted, every)


def tell(chosen: Chosen, check: Check, as_json: bool) -> None:
    """What --list shows."""
    if as_json:
        print_json(_listed(chosen, check))
    elif chosen.study.groups:
        show(chosen, stdout())
    else:
        for point in _by_number(chosen, check):
            can = f"[can be {chosen.had}]"
            stdout().print(f"{point.point}  {point.title}  {can}", markup=False)


def _by_number(chosen: Chosen, check: Check) -> Iterator[ListedPoint]:
    """Numbers the points of a study without groups."""
    every = titles(check(chosen.points[0].doc))
    only = chosen.wanted.point
    for number in range(1, len(every) + 1) if only is None else (number_of(only, len(every)),):
        yield ListedPoint(point=str(number), title=every[number - 1])


def titles(checked: Checked) -> list[str]:
    """Name the points of a study without groups, in the order of their numbers."""
    return [
        ", ".join((point.chain, point.execution, point.offers[0].workload))
        for point in checked.points
    ]


def _listed(chosen: Chosen, check: Check) -> PointList:
    if not chosen.study.groups:
        return PointList(study=chosen.study.name, points=tuple(_by_number(chosen, check)))
    points = (
        ListedPoint(
            point=point.name,
            group=point.group,
            figures=point.figures,
            values=point.values,
            lacking=point.skipped,
        )
        for point in chosen.points
    )
    return PointList(study=chosen.study.name, points=tuple(points))


def show(chosen: Chosen, console: Console) -> None:
    """The points, and which of them can be measured here, or predicted."""
    say_shared(chosen, console)
    for point in chosen.points:
        text = ", ".join(f"{path}={flow(value)}" for path, value in point.values.items())
        where = f"figure {', '.join(point.figures)}, " if point.figures else ""
        console.print(
            f"{where}{point.name}{': ' * bool(text)}{text}  "
            f"[{point.skipped or f'can be {chosen.had}'}]",
            markup=False,
        )


def say_shared(chosen: Chosen, console: Console) -> None:
    """Spans of figures that points of the one asked for belong to."""
    figure = chosen.wanted.figure
    spans = {text for point in chosen.points for text in point.figures if len(span(text)) > 1}
    for shared in sorted(text for text in spans if figure is not None and figure in span(text)):
        console.print(
            f"Figures {shared} of the paper have these points between them: which of them are "
            f"figure {figure}'s is not told apart.",
            markup=False,
        )


def _together(each: Sequence[Checked]) -> Checked:
    known = [one.seconds for one in each if one.seconds is not None]
    memory = [one.memory for one in each if one.memory is not None]
    return Checked(
        points=[point for one in each for point in one.points],
        inputs={name: file for one in each for name, file in one.inputs.items()},
        writes={name: file for one in each for name, file in one.writes.items()},
        seconds=sum(known) if len(known) == len(each) else None,
        interleaved=all(one.interleaved for one in each),
        memory=max(memory, key=lambda one: one.memory_mb) if memory else None,
        notes=list(dict.fromkeys(note for one in each for note in one.notes)),
        computed=[point for one in each for point in one.computed],
        lacking=next((one.lacking for one in each if one.lacking is not None), None),
        apart=True,
        close=lambda: _close(each),
    )


def _close(each: Sequence[Checked]) -> None:
    for one in each:
        one.close()
