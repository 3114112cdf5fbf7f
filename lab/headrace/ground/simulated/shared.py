# SPDX-License-Identifier: Apache-2.0
"""Several chains on the same lcores of a described server: one point, which has a row for each."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np

from headrace.ground.computed import Computed
from headrace.ground.contract import About, Deployed, Offer, Point, Site
from headrace.ground.load_curve import asked_load, load_of
from headrace.ground.simulated.elastic import SimulatedOperable
from headrace.ground.simulated.priced_layout import PricedLayout
from headrace.record.facts import Observation
from headrace.record.resolved import ResolvedSimulation
from headrace.record.segments import Segment
from headrace.spec.document import Document
from headrace.spec.study import Experiment, Study


class SharingDeployed(Deployed, Protocol):
    def operable(self) -> SimulatedOperable: ...


class SharingPoint(Point, Protocol):
    """What is asked of a chain that shares lcores with others."""

    @property
    def experiment(self) -> Experiment: ...
    @property
    def doc(self) -> Document: ...
    @property
    def study(self) -> Study: ...
    def priced(self) -> PricedLayout: ...
    def resolved(self) -> ResolvedSimulation: ...
    def deploy(self, site: Site) -> AbstractContextManager[SharingDeployed]: ...


P = TypeVar("P", bound=SharingPoint)


def with_shared(points: Sequence[P]) -> Iterator[P | SharedPoint]:
    """Chains that share lcores are one point: those of one deployment and traffic."""
    together: dict[tuple[object, ...], list[P]] = {}
    for one in points:
        asked = one.study.measure.operate
        if asked is None or not asked.chains:
            yield one
            continue
        key = one.experiment.point, one.execution, one.experiment.workload_name
        together.setdefault(tuple(map(str, key)), []).append(one)
    for several in together.values():
        yield SharedPoint.of(several)


@dataclass(frozen=True)
class SharedPoint:
    """Several chains on the same lcores."""

    each: tuple[SharingPoint, ...]
    cpus: frozenset[int] = frozenset()  # of this machine
    runs: tuple[str, ...] = ()

    @classmethod
    def of(cls, points: Sequence[SharingPoint]) -> SharedPoint:
        """BadInput for loads that do not end together, and for what the tester cannot make."""
        first, loads = points[0], [load_of(one.experiment, one.doc) for one in points]
        for one, load in zip(points, loads, strict=True):
            if load.seconds[-1] != loads[0].seconds[-1]:
                raise one.doc.error(
                    asked_load(one.experiment)[1],
                    f"cannot operate: lasts {load.seconds[-1]:g} s; covered: "
                    f"{loads[0].seconds[-1]:g} s, as the load of {first.chain}",
                )
        at = np.unique(np.concatenate([load.seconds for load in loads]))
        total = np.sum([load.around(at) for load in loads], axis=0)
        makes = min(one.priced().source_pps() for one in points)
        if (peak := float(np.max(total))) > makes:
            raise first.doc.error(
                ("measure", "operate", "chains"),
                f"cannot operate: loads of {peak / 1e6:.3g} Mpps in all; covered: "
                f"{makes / 1e6:.3g}, which is what the tester makes",
            )
        return cls(tuple(points))

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

    def resolved(self) -> ResolvedSimulation:
        return self.each[0].resolved().model_copy(update={"chain": self.chain})

    @contextlib.contextmanager
    def deploy(self, site: Site) -> Iterator[SharedDeployed]:
        with contextlib.ExitStack() as stack:
            each = {one.chain: stack.enter_context(one.deploy(site)) for one in self.each}
            yield SharedDeployed(each)


@dataclass
class SharedDeployed(Computed):
    """What is no chain's own is asked of the first one."""

    each: Mapping[str, SharingDeployed]

    @property
    def _first(self) -> SharingDeployed:
        return next(iter(self.each.values()))

    @property
    def labels(self) -> Sequence[str]:
        return self._first.labels

    def about(self) -> About:
        return self._first.about()

    def most_pps(self, offer: Offer) -> float | None:
        return self._first.most_pps(offer)

    def start(self, offer: Offer, load_pps: float, seconds: float) -> None:
        self._first.start(offer, load_pps, seconds)

    def read(self) -> Sequence[Observation]:
        return self._first.read()

    def sharing(self) -> dict[str, SimulatedOperable]:
        """Packets of each come at random by themselves."""
        return {
            chain: one.operable().apart(number)
            for number, (chain, one) in enumerate(self.each.items())
        }
