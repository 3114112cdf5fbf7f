# SPDX-License-Identifier: Apache-2.0
"""What a run on a server's path came to: what both ends say, and what was counted meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.collect.hardware import cpu_times
from headrace.collect.os import protocols
from headrace.host import settings
from headrace.record.facts import Facts, LcoreTime, Observation
from headrace.record.figures import L1_OVERHEAD_BYTES, ApplicationFigures, Figures
from headrace.tune.path import ServerPath, Station
from headrace.tune.wish import Protocol

_FCS_BYTES = 4
Counters = Mapping[str, Mapping[str, int]]  # part -> counter -> value


def counters(path: ServerPath) -> dict[str, dict[str, int]]:
    """Counters of this machine's cores, and of the stations' and the bridge's namespaces."""
    stat = Path("/proc/stat").read_text()
    values = {
        r.place: {"softirq_us": round(r.value * 1e6)}
        for r in cpu_times(stat)
        if r.metric == "cpu_softirq_s"
    }
    for role, namespace in (("server", path.namespace), ("receiver", path.receiver.namespace)):
        snmp = protocols(settings.run(namespace, ["cat", "/proc/net/snmp"]))
        errors = snmp.get("Tcp.InCsumErrors", 0) + snmp.get("Udp.InCsumErrors", 0)
        values[role] = {
            "fragments": int(snmp.get("Ip.ReasmReqds", 0)),
            "checksum_errors": int(errors),
        }
    values["sender"] = _interface(path.sender, "tx")
    values["receiver"] |= _interface(path.receiver, "rx")
    return values


def _interface(station: Station, way: str) -> dict[str, int]:
    folder = f"/sys/class/net/{station.device}/statistics"
    files = [f"{folder}/{way}_packets", f"{folder}/{way}_bytes"]
    packets, size = settings.run(station.namespace, ["cat", *files]).split()
    return {"packets": int(packets), "bytes": int(size)}


def growth(before: Counters, after: Counters) -> dict[str, dict[str, int]]:
    return {
        part: {name: value - before[part][name] for name, value in values.items()}
        for part, values in after.items()
    }


@dataclass(frozen=True)
class Seen:
    """One run: `grown` is what the counters grew by, its shortcut's and the comparisons of content
    among them."""

    protocol: Protocol
    sender: Mapping[str, Any]  # what it says of itself (tune/bulk.py)
    receiver: Mapping[str, Any]
    grown: Counters
    clocks: Sequence[LcoreTime] = ()

    @property
    def gbps(self) -> float:
        """Payload that reached the receiver, in the time from its first to its last byte."""
        return float(self.receiver["bytes"]) * 8 / self.seconds / 1e9

    @property
    def seconds(self) -> float:
        return max(float(self.receiver["seconds"]), 1e-9)

    @property
    def softirq_s(self) -> dict[str, float]:
        """Seconds by core, of the whole machine."""
        return {
            part: values["softirq_us"] / 1e6
            for part, values in self.grown.items()
            if "softirq_us" in values
        }

    @property
    def packet_bytes(self) -> float:
        """Mean size of what leaves the sender's device; what is never cut counts as one."""
        sent = self.grown["sender"]
        return sent["bytes"] / sent["packets"] if sent["packets"] else 0.0

    def observation(self) -> Observation:
        return Observation("forward", self._figures(), self._facts())

    def _facts(self) -> Facts:
        sent, received = int(self.sender["bytes"]), int(self.receiver["bytes"])
        return Facts(
            sent=sent, received=received, lost=sent - received, unit="bytes", clocks=self.clocks,
            wrong=int(self.receiver["wrong"]), took_s=float(self.sender["seconds"]),
        )  # fmt: skip

    def _figures(self) -> Figures:
        """Packets are those of the stations' interfaces, the loss is that of the payload: pieces
        of a message may be joined or cut on the way."""
        sent, received = self.grown["sender"], self.grown["receiver"]
        l2_bytes = received["bytes"] + received["packets"] * _FCS_BYTES
        gone = max(0, int(self.sender["bytes"]) - int(self.receiver["bytes"]))
        return Figures(
            load_pps=0,
            throughput_pps=received["packets"] / self.seconds,
            throughput_gbps_l1=(l2_bytes + received["packets"] * L1_OVERHEAD_BYTES)
            * 8 / self.seconds / 1e9,
            throughput_gbps_l2=l2_bytes * 8 / self.seconds / 1e9,
            offered_pps=sent["packets"] / float(self.sender["seconds"]),
            sent_pps=sent["packets"] / float(self.sender["seconds"]),
            received_pps=received["packets"] / self.seconds,
            loss_ratio=gone / int(self.sender["bytes"]) if self.sender["bytes"] else 0.0,
            duration_s=self.seconds,
            sent=sent["packets"],
            received=received["packets"],
            application=self._application(),
            labels=("closed-loop",) if self.protocol == "tcp" else (),
        )  # fmt: skip

    def _application(self) -> ApplicationFigures:
        ends = {"sender": self.sender, "receiver": self.receiver}
        return ApplicationFigures(
            gbps=self.gbps,
            errors=int(self.receiver["wrong"]),
            counters={part: dict(values) for part, values in self.grown.items()},
            cpu={name: float(end["cpu_s"]) / self.seconds for name, end in ends.items()},
        )
