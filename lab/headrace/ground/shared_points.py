# SPDX-License-Identifier: Apache-2.0
"""Several chains on the same lcores: one point, which has a row for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, Protocol, TypeVar

from headrace.collect.collector import Targets
from headrace.ground.contract import About, Deployed, Offer, Point, TrialsOnly
from headrace.record.facts import Observation
from headrace.record.segments import Segment
from headrace.record.verdict import Finding
from headrace.spec.document import Document
from headrace.spec.study import Experiment, Study


class SharingPoint(Point, Protocol):
    """What is asked of a chain that shares lcores with others."""

    @property
    def experiment(self) -> Experiment: ...
    @property
    def doc(self) -> Document: ...
    @property
    def study(self) -> Study: ...


P = TypeVar("P", bound=SharingPoint)


def with_shared(points: Sequence[P], shared: Callable[[tuple[P, ...]], Point]) -> Iterator[Point]:
    """Chains that share lcores are one point, which `shared` makes of them: those of one deployment
    and traffic."""
    together: dict[tuple[object, ...], list[P]] = {}
    for one in points:
        asked = one.study.measure.operate
        if asked is None or not asked.chains:
            yield one
            continue
        key = one.experiment.point, one.execution, one.experiment.workload_name
        together.setdefault(tuple(map(str, key)), []).append(one)
    for several in together.values():
        _check_together(several)
        yield shared(tuple(several))


def _check_together(points: Sequence[SharingPoint]) -> None:
    """BadInput for loads that do not end together."""
    from headrace.ground.load_curve import asked_load, load_of  # numpy

    first, *others = points
    seconds = load_of(first.experiment, first.doc).seconds[-1]
    for one in others:
        own = load_of(one.experiment, one.doc).seconds[-1]
        if own != seconds:
            raise one.doc.error(
                asked_load(one.experiment)[1],
                f"cannot operate: lasts {own:g} s; covered: {seconds:g} s, as the load of "
                f"{first.chain}",
            )


@dataclass(frozen=True)
class SharedPoint:
    """What all of them have in common is the first one's."""

    each: tuple[SharingPoint, ...]

    @property
    def experiment(self) -> Experiment:
        return self.each[0].experiment

    @property
    def doc(self) -> Document:
        return self.each[0].doc

    @property
    def chain(self) -> str:
        return " + ".join(one.chain for one in self.each)

    @property
    def execution(self) -> str:
        return self.each[0].execution

    @property
    def study(self) -> Study:
        return self.each[0].study

    @property
    def cpus(self) -> frozenset[int]:
        return frozenset[int]().union(*(one.cpus for one in self.each))

    @property
    def runs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(program for one in self.each for program in one.runs))

    @property
    def offers(self) -> Sequence[Offer]:
        return self.each[0].offers

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(note for one in self.each for note in one.notes))

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        source, *_, sink = self.each[0].segments
        own = (
            segment.model_copy(update={"name": f"{one.chain}:{segment.name}"})
            for one in self.each
            for segment in one.segments[1:-1]
        )
        return (source, *own, sink)


D = TypeVar("D", bound=Deployed, covariant=True)


@dataclass
class SharedDeployed(TrialsOnly, Generic[D]):
    """What is no chain's own is asked of the first one."""

    each: Mapping[str, D]
    notes: Sequence[str] = ()

    @property
    def _first(self) -> D:
        return next(iter(self.each.values()))

    @property
    def labels(self) -> Sequence[str]:
        return tuple(dict.fromkeys(label for one in self.each.values() for label in one.labels))

    def about(self) -> About:
        return self._first.about()

    def parts(self) -> Targets:
        return self._first.parts()

    def verify(self) -> Sequence[Finding]:
        return [finding for one in self.each.values() for finding in one.verify()]

    def most_pps(self, offer: Offer) -> float | None:
        return self._first.most_pps(offer)

    def lacks(self, offer: Offer) -> str | None:
        return self._first.lacks(offer)

    def start(self, offer: Offer, load_pps: float, seconds: float) -> None:
        self._first.start(offer, load_pps, seconds)

    def wait(self) -> None:
        self._first.wait()

    def read(self) -> Sequence[Observation]:
        return self._first.read()
