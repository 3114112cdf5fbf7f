# SPDX-License-Identifier: Apache-2.0
"""The points of a study: those of its groups, or the study itself."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.errors import BadInput, bad_value
from headrace.spec.document import Document
from headrace.spec.dotted import over, put
from headrace.spec.group import Group, Machine, Quick, lacking
from headrace.spec.study import Study, read, studies

_OF_THE_FILE = ("groups", "claims", "sweep", "quick")
NOT_QUICK = "--quick leaves it out"


@dataclass(frozen=True)
class StudyPoint:
    """A study of its own, which any ground takes: its name is the point's."""

    name: str
    doc: Document
    group: str = ""
    figures: tuple[str, ...] = ()
    values: dict[str, Any] = field(default_factory=dict)
    skipped: str | None = None  # why this machine cannot have it


@dataclass(frozen=True)
class Wanted:
    """Some of the points; all, unless said otherwise."""

    group: str | None = None
    figure: int | None = None
    point: str | None = None  # by name; in a study without groups by number, from 1
    quick: bool = False  # as the study's own `quick` has them


def has_groups(doc: Document) -> bool:
    return isinstance(doc.data, dict) and bool(doc.data.get("groups"))


def points(doc: Document, machine: Machine, wanted: Wanted = Wanted()) -> list[StudyPoint]:
    """Those that are wanted, those that the machine cannot have among them."""
    if not has_groups(doc):
        _none_wanted(doc, wanted)
        whole = quickly(doc) if wanted.quick else doc
        return [StudyPoint(next(studies(whole))[0].name, whole)]
    study = read(doc)
    _known(study, wanted)
    _has_quick(doc, study, wanted)
    listed = [
        point
        for name, group in study.groups.items()
        if wanted.group in (None, name)
        and (wanted.figure is None or wanted.figure in group.numbers)
        for point in _group(doc, study, name, group, machine, quick=wanted.quick)
    ]
    if wanted.point is None:
        return listed
    of_name = [point for point in listed if point.name == wanted.point]
    if not of_name:
        names = ", ".join(point.name for point in listed)
        raise BadInput(f"--point: got {wanted.point}; allowed: {names}")
    return of_name


def quickly(doc: Document) -> Document:
    """A study without groups, with its `quick` laid over it."""
    quick = doc.data.get("quick") if isinstance(doc.data, dict) else None
    if not quick:
        raise BadInput(f"--quick: {doc.place} has no `quick`")
    if not isinstance(quick, dict):
        raise doc.error(("quick",), "allowed: keys of a study", value=quick)
    return replace(doc, data=over(doc.data, quick))


def _has_quick(doc: Document, study: Study, wanted: Wanted) -> None:
    none = Quick()
    if wanted.quick and not study.quick and all(g.quick == none for g in study.groups.values()):
        raise BadInput(f"--quick: {doc.place} has no `quick`")


def _none_wanted(doc: Document, wanted: Wanted) -> None:
    for option in ("group", "figure"):
        if getattr(wanted, option) is not None:
            raise BadInput(f"--{option}: {doc.place} has no `groups`")


def _known(study: Study, wanted: Wanted) -> None:
    if wanted.group is not None and wanted.group not in study.groups:
        raise BadInput(f"--group: got {wanted.group}; allowed: {', '.join(study.groups)}")
    drawn = sorted(set().union(*(one.numbers for one in study.groups.values())))
    if wanted.figure is not None and not drawn:
        problem = f"study {study.name} has no figures"
        raise bad_value("--figure", wanted.figure, allowed="--group, --point", problem=problem)
    if wanted.group is not None:
        drawn = sorted(study.groups[wanted.group].numbers)
    if wanted.figure is not None and wanted.figure not in drawn:
        of = "" if wanted.group is None else f" with --group {wanted.group}"
        numbers = ", ".join(map(str, drawn)) or "no --figure, as that group is in none"
        raise BadInput(f"--figure: got {wanted.figure}; allowed{of}: {numbers}")


def _group(
    doc: Document, study: Study, name: str, group: Group, machine: Machine, *, quick: bool
) -> Iterator[StudyPoint]:
    common = {key: value for key, value in doc.data.items() if key not in _OF_THE_FILE}
    laid = over({"description": group.about, **common}, group.spec)
    if quick:
        laid = over(over(laid, study.quick), group.quick.spec)
    sweep = {**study.sweep, **group.sweep}
    of_group = replace(doc, group=name, swept=tuple(group.sweep))
    for i, combination in enumerate(itertools.product(*sweep.values()), 1):
        values = dict(zip(sweep, combination, strict=True))
        data = {**over(laid, {}), "name": f"{name}-{i}"[:31]}
        for path, value in values.items():
            problem = put(data, path, value)
            if problem is not None:
                raise of_group.error(("sweep", path), problem)
        data["sweep"] = {path: [value] for path, value in values.items()}
        reasons = [lacking(need, values, data, machine) for need in group.needs]
        if quick and not _left(group.quick, values):
            reasons.append(NOT_QUICK)
        yield StudyPoint(
            data["name"],
            replace(of_group, data=data),
            name,
            group.figures,
            values,
            next(filter(None, reasons), None),
        )


def _left(quick: Quick, values: dict[str, Any]) -> bool:
    """Points keep their numbers: those that are left out are skipped."""
    return all(values[path] in some for path, some in quick.sweep.items())
