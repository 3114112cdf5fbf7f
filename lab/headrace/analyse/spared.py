# SPDX-License-Identifier: Apache-2.0
"""Offload of state, by a trial's counters: packets to which the host did what their VNF had
decided, those that went to the VNF, and what became of the decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields

from headrace.record.counters import Counters


@dataclass(frozen=True)
class Spared:
    """All VNFs together: a packet that passes three of them is counted three times."""

    host: int = 0  # packets
    vnf: int = 0
    decisions: int = 0
    voided: int = 0
    stale: int = 0
    no_room: int = 0
    evicted: int = 0
    refused: int = 0
    fragments: int = 0
    apart: int = 0  # links at which nothing can be offloaded

    @property
    def share(self) -> float:
        """The host's of all packets."""
        return self.host / max(self.host + self.vnf, 1)


def spared(each: Iterable[Counters]) -> Spared | None:
    """Sums trials of one experiment; None where nothing is offloaded."""
    links = [(name, one, counters) for counters in each for name, one in counters.offload.items()]
    if not links:
        return None
    passed = sum(
        replica.outputs[name].packets
        for name, _, counters in links
        for replica in counters.replicas
        if name in replica.outputs
    )
    sums = Counter[str]()
    for _, one, _ in links:
        sums.update({name: int(value) for name, value in one})
    kept = {field.name: sums[field.name] for field in fields(Spared) if field.name in sums}
    own = {"host": sums["hits"], "vnf": passed - sums["hits"], "decisions": sums["published"]}
    return Spared(**kept | own)
