# SPDX-License-Identifier: Apache-2.0
"""The service as the contract's `Deployed`: what all measurements of it have in common."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.collect.collector import Targets, WatchedProcess
from headrace.engine.engine import Engine
from headrace.errors import HeadraceError
from headrace.ground.contract import AboutEngine, Offer, TrialsOnly
from headrace.ground.offload.service import Service
from headrace.record.facts import Observation
from headrace.record.verdict import Finding


class ServiceUp(TrialsOnly):
    notes: Sequence[str] = ()
    labels: Sequence[str] = ()

    def __init__(self, service: Service) -> None:
        self.service = service

    @property
    def engine(self) -> Engine:
        assert self.service.engine is not None
        return self.service.engine

    def about(self) -> AboutEngine:
        return AboutEngine(self.engine.info())

    def parts(self) -> Targets:
        return Targets(processes=(WatchedProcess(name="engine", pid=self.engine.pid),))

    def verify(self) -> Sequence[Finding]:
        return ()

    def most_pps(self, offer: Offer) -> float | None:
        return None

    def lacks(self, offer: Offer) -> str | None:
        return "the service has no tester of its own"

    def start(self, offer: Offer, load_pps: float, seconds: float) -> None:
        raise HeadraceError(str(self.lacks(offer)))

    def wait(self) -> None:
        """Nothing was started."""

    def read(self) -> Sequence[Observation]:
        return ()
