# SPDX-License-Identifier: Apache-2.0
"""What is the same wherever nothing runs: figures are computed, and the machine is not touched."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.collect.collector import Targets
from headrace.ground.contract import AboutServer, Offer, TrialsOnly
from headrace.record.verdict import Finding
from headrace.spec.described import DescribedServer


class Computed(TrialsOnly):
    """A point that is `Deployed` in name only."""

    notes: Sequence[str] = ()

    def parts(self) -> Targets:
        return Targets()

    def verify(self) -> Sequence[Finding]:
        return ()

    def lacks(self, offer: Offer) -> str | None:
        return None

    def wait(self) -> None:
        """It takes no time."""


def about_server(server: DescribedServer) -> AboutServer:
    return AboutServer(server.name, round(server.clock_mhz.value * 1e6))
