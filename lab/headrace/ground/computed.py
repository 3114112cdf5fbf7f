# SPDX-License-Identifier: Apache-2.0
"""What is the same wherever nothing runs: figures are computed, and the machine is not touched."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.collect.base import Targets
from headrace.ground.contract import AboutServer, Converging, Killable, Looking, Offer
from headrace.record.verdict import Finding
from headrace.spec.described import DescribedServer


class Computed:
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

    def looking(self) -> Looking | None:
        return None

    def left_alone(self, seconds: float) -> float | None:
        return None

    def killable(self) -> Killable | None:
        return None

    def converging(self) -> Converging | None:
        return None


def about_server(server: DescribedServer) -> AboutServer:
    return AboutServer(server.name, round(server.clock_mhz.value * 1e6))
