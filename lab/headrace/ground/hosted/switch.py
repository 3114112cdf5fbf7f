# SPDX-License-Identifier: Apache-2.0
"""What a switch of a hosted chain's is asked for, if it is not the host engine's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.engine.counts import EngineCounts
from headrace.engine.link_counts import DeviceCounts, PortCounts


@dataclass(frozen=True)
class SwitchCounts:
    """What the switch sees of a port: what came from its owner is `rx`."""

    rx_packets: int
    tx_packets: int
    rx_dropped: int
    tx_dropped: int
    rx_capped: int = 0  # dropped, as its owner may send no more


class Switch:
    """Made when the chain is deployed; the ledger undoes it."""

    directory: Path | None = None  # of an Open vSwitch
    bridge: str | None = None  # the kernel's, in the namespace `bridge_in`
    bridge_in: str | None = None
    pids: dict[str, int] = {}  # noqa: RUF012 - of processes that forward, where the kernel does not

    def namespace_of(self, owner: str) -> str | None:
        """Where an owner's ports are; None: it has sockets, and no network."""
        return None

    def tap(self, owner: str, port: str) -> int | None:
        """A descriptor of this port for its owner, a virtual machine; None: it has a socket."""
        return None

    def enter(self, owner: str) -> list[str]:
        """What starts a command where its ports are."""
        return []

    def wait_up(self) -> None:
        """Waits until all of its ports carry packets."""

    def counts(self) -> dict[tuple[str, str], SwitchCounts]:
        """Counts by owner and port."""
        return {}


def as_port(mac: str, counts: SwitchCounts) -> PortCounts:
    """The port of a VNF that counts for nobody, as the switch sees it."""
    return PortCounts(
        type="port", driver="", mac=mac, up=True, speed_mbps=0,
        rx_packets=counts.tx_packets, rx_bytes=0, tx_packets=counts.rx_packets, tx_bytes=0,
        rx_missed=counts.tx_dropped, rx_errors=0, tx_errors=counts.rx_dropped, rx_no_mbuf=0,
        tx_capped=counts.rx_capped,
    )  # fmt: skip


def with_counts(
    read: EngineCounts, owner: str, counts: Mapping[tuple[str, str], SwitchCounts]
) -> EngineCounts:
    """What the switch counted, beside what the engine did. What it had for a port whose queue was
    full is what a device calls missed."""
    links = dict(read.links)
    for (whose, name), one in counts.items():
        if whose == owner and isinstance(link := links.get(name), PortCounts):
            links[name] = link.model_copy(
                update={
                    "device": DeviceCounts(rx_packets=one.tx_packets, tx_packets=one.rx_packets),
                    "rx_missed": link.rx_missed + one.tx_dropped,
                    "tx_errors": link.tx_errors + one.rx_dropped,
                    "tx_capped": link.tx_capped + one.rx_capped,
                }
            )
    return read.model_copy(update={"links": links})
