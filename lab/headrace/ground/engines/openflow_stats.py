# SPDX-License-Identifier: Apache-2.0
"""What an Open vSwitch with DPDK counts: what its pollers did, and packets of flows."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace.errors import HeadraceError
from headrace.ground.engines.openflow import COUNTED, COUNTED_MASK
from headrace.host.openvswitch import OpenVswitch

_FIGURE = re.compile(r"^\s+([a-z. ]+): (\d+)", re.MULTILINE)
# What `dpif-netdev/pmd-stats-show` calls it, and what a trial's record does.
_NAMES = {
    "packets received": "received", "packet recirculations": "recirculated",
    "simple match hits": "simple-match-hits", "emc hits": "emc-hits", "smc hits": "smc-hits",
    "megaflow hits": "megaflow-hits", "miss with success upcall": "misses",
    "miss with failed upcall": "failed-misses", "idle cycles": "idle-cycles",
    "processing cycles": "cycles",
}  # fmt: skip
_FLOW = re.compile(r"cookie=(0x[0-9a-f]+).*?n_packets=(\d+)")
_STILL_S, _LOOK_S, _SETTLED_S = 0.005, 0.02, 3.0


@dataclass
class OvsConsole:
    """`ports`: its names of the chain's ports. `counted`: names of flows' counters by cookie. Flows
    are counted some time after their packets went (by revalidators): while packets come, they
    are as they were asked last; once none comes any more they are waited for."""

    switch: OpenVswitch
    ports: Sequence[str]
    counted: Mapping[int, str]
    _flows: dict[str, int] = field(default_factory=dict)
    _of: int = -1  # packets that had been received when these flows were complete

    def forwards(self) -> bool:
        if missing := set(self.ports) - self.switch.polled():
            raise HeadraceError(
                f"ovs-dpdk: port {min(missing)} cannot be had: {self.switch.last_error()}"
            )
        return True

    def counters(self) -> dict[str, int]:
        before = self._polled()
        if before["received"] != self._of or not self._flows:
            time.sleep(_STILL_S)
            deadline = time.monotonic() + _SETTLED_S
            while (now := self._polled())["received"] == before["received"]:
                if self._complete(now) or time.monotonic() > deadline:
                    break
                time.sleep(_LOOK_S)
            before = now
        return {**before, **(self._flows or dict.fromkeys(self.counted.values(), 0))}

    def _polled(self) -> dict[str, int]:
        return polled(self.switch.ask("dpif-netdev/pmd-stats-show"))

    def _complete(self, now: Mapping[str, int]) -> bool:
        text = self.switch.flows(f"cookie={COUNTED:#x}/{COUNTED_MASK:#x}")
        self._flows = packets(text, self.counted)
        came = sum(count for name, count in self._flows.items() if name.endswith("/in"))
        if came + now["failed-misses"] < now["received"]:
            return False
        self._of = now["received"]
        return True


def polled(text: str) -> dict[str, int]:
    """Sums over all pollers; the main thread, which is told beside them, has packets of its own."""
    counts = dict.fromkeys(_NAMES.values(), 0)
    for name, count in _FIGURE.findall(text.partition("main thread")[0]):
        if name in _NAMES:
            counts[_NAMES[name]] += int(count)
    return counts


def packets(text: str, counted: Mapping[int, str]) -> dict[str, int]:
    """Packets by counter's name, of what `ovs-ofctl dump-flows` prints."""
    counts = dict.fromkeys(counted.values(), 0)
    for cookie, count in _FLOW.findall(text):
        counts[counted[int(cookie, 16)]] += int(count)
    return counts
