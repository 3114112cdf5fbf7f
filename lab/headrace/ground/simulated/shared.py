# SPDX-License-Identifier: Apache-2.0
"""Several chains on the same lcores of a described server."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from headrace.ground.contract import Deployed, Site
from headrace.ground.load_curve import load_of
from headrace.ground.shared_points import SharedDeployed, SharedPoint, SharingPoint
from headrace.ground.simulated.elastic import SimulatedOperable
from headrace.ground.simulated.priced_layout import PricedLayout
from headrace.record.resolved import ResolvedSimulation


class SharingDeployed(Deployed, Protocol):
    def operable(self) -> SimulatedOperable: ...


class PricedSharing(SharingPoint, Protocol):
    """What is asked of one of these chains."""

    def priced(self) -> PricedLayout: ...
    def resolved(self) -> ResolvedSimulation: ...
    def deploy(self, site: Site) -> AbstractContextManager[SharingDeployed]: ...


@dataclass(frozen=True)
class SimulatedShared(SharedPoint):
    each: tuple[PricedSharing, ...]

    @classmethod
    def of(cls, points: tuple[PricedSharing, ...]) -> SimulatedShared:
        """BadInput for what the tester cannot make."""
        first, loads = points[0], [load_of(one.experiment, one.doc) for one in points]
        at = np.unique(np.concatenate([load.seconds for load in loads]))
        total = np.sum([load.around(at) for load in loads], axis=0)
        makes = min(one.priced().source_pps() for one in points)
        if (peak := float(np.max(total))) > makes:
            raise first.doc.error(
                ("measure", "operate", "chains"),
                f"cannot operate: loads of {peak / 1e6:.3g} Mpps in all; covered: "
                f"{makes / 1e6:.3g}, which is what the tester makes",
            )
        return cls(points)

    def resolved(self) -> ResolvedSimulation:
        return self.each[0].resolved().model_copy(update={"chain": self.chain})

    @contextlib.contextmanager
    def deploy(self, site: Site) -> Iterator[SimulatedSharing]:
        with contextlib.ExitStack() as stack:
            each = {one.chain: stack.enter_context(one.deploy(site)) for one in self.each}
            yield SimulatedSharing(each)


class SimulatedSharing(SharedDeployed[SharingDeployed]):
    def sharing(self) -> dict[str, SimulatedOperable]:
        """Packets of each come at random by themselves."""
        return {
            chain: one.operable().apart(number)
            for number, (chain, one) in enumerate(self.each.items())
        }
