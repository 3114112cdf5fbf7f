# SPDX-License-Identifier: Apache-2.0
"""One study on several grounds: what each of its bundles found of each point, and of each claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError

from headrace.analyse.claims import tally
from headrace.analyse.settings_apart import settings_apart
from headrace.errors import BadInput
from headrace.record.bundle import Bundle
from headrace.record.claim import JudgedClaim
from headrace.record.known import known
from headrace.record.points import PointRow, points_of
from headrace.record.rows import Result
from headrace.spec.base import Spec
from headrace.spec.group import Group

_Part = TypeVar("_Part", bound=Spec)
MEASURED, PREDICTED = "measured", "predicted"


class AskedPoint(NamedTuple):
    """What a point was asked for."""

    point: str
    execution: str
    workload: str
    goal: str
    load_pps: float  # of fixed loads; 0 of all else


@dataclass(frozen=True)
class GroundResults:
    """A bundle of the study. `claims`: judged by its own results. `apart`: which of several of the
    same kind and place it is."""

    bundle: Bundle
    claims: tuple[JudgedClaim, ...]
    apart: str = ""

    @cached_property
    def predicted_for(self) -> str | None:
        """The described server that all was computed for."""
        server = known(self.bundle).server
        return None if server is None else server.name

    @cached_property
    def of_the_paper(self) -> bool:
        """Predicted for the server that the study's paper measured on."""
        paper = study_of(self).get("paper")
        return paper is not None and any(
            one.server is not None and one.server.paper == paper
            for one in known(self.bundle).experiments
        )

    @property
    def ground(self) -> str:
        return MEASURED if self.predicted_for is None else PREDICTED

    @property
    def where(self) -> str:
        environment = self.bundle.environment
        host = "here" if environment is None else environment.hostname
        return self.predicted_for or str(host)

    @property
    def title(self) -> str:
        return ", ".join(filter(None, (self.ground, self.where, self.apart)))

    @property
    def tally(self) -> str:
        return tally(self.claims) if self.claims else "no claims"

    @cached_property
    def points(self) -> tuple[PointRow, ...]:
        return settings_apart(points_of(self.bundle))

    @cached_property
    def results(self) -> dict[AskedPoint, list[Result]]:
        """Results by what was asked, one of each repetition. A search that met its goal at no load
        has no figure."""
        every: dict[AskedPoint, list[Result]] = {}
        for one in self.bundle.results():
            fixed = one.goal == "fixed"
            if fixed or one.throughput_pps > 0:
                load = one.load_pps if fixed else 0.0
                key = AskedPoint(one.chain, one.execution, one.workload, one.goal, load)
                every.setdefault(key, []).append(one)
        return every


def told_apart(grounds: Sequence[GroundResults]) -> list[GroundResults]:
    """Those of one title have their bundles' paths in it."""
    titles = Counter(one.title for one in grounds)
    return [
        replace(one, apart=str(one.bundle.path)) if titles[one.title] > 1 else one
        for one in grounds
    ]


def study_of(ground: GroundResults) -> dict[str, Any]:
    """What the bundle's spec says."""
    data = ground.bundle.spec_data
    if isinstance(data, dict) and isinstance(data.get("name"), str):
        return data
    raise BadInput(f"{ground.bundle.path}: has no study; allowed: bundles of `headrace run`")


def parts_of(ground: GroundResults, key: str, model: type[_Part]) -> dict[str, _Part]:
    """The study's groups, or its claims."""
    given = study_of(ground).get(key) or {}
    try:
        return {name: model.model_validate(one) for name, one in given.items()}
    except (AttributeError, ValidationError):
        place = f"{ground.bundle.path}/spec.yaml: {key}"
        raise BadInput(f"{place}: not as a study has them; allowed: of this version") from None


def side_by_side(grounds: Sequence[GroundResults]) -> dict[str, Group]:
    """The groups that any of the bundles has; of another study they are not comparable."""
    first, *others = [study_of(one) for one in grounds]
    for ground, data in zip(grounds[1:], others, strict=True):
        if (data.get("name"), data.get("paper")) != (first.get("name"), first.get("paper")):
            raise BadInput(
                f"{ground.bundle.path}: is of {data.get('name')}; allowed beside "
                f"{grounds[0].bundle.path}: bundles of {first.get('name')}"
            )
    for ground in grounds:
        if len({row.ground == MEASURED for row in ground.bundle.results()}) > 1:
            problem = "has measurements and predictions (--beside)"
            raise BadInput(f"{ground.bundle.path}: {problem}; allowed: a bundle of either")
    groups: dict[str, Group] = {}
    for ground in grounds:
        for name, group in parts_of(ground, "groups", Group).items():
            groups.setdefault(name, group)
    return groups
