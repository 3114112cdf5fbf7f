# SPDX-License-Identifier: Apache-2.0
"""Well-kept load generators, run at the clients: wrk for HTTP, iperf3 for streams."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from headrace.errors import HeadraceError
from headrace.record import LatencyNs
from headrace.spec.appliance import AnyWorkload, DnsWorkload, HttpWorkload, StreamWorkload
from headrace.testbed.containers.deploy import Deployed
from headrace.testbed.containers.layout import PORT

_GRACE_S = 60
_MARK = "headrace "


@dataclass(frozen=True)
class Load:
    """What the clients report of one trial."""

    duration_s: float
    bytes: int  # of payload (HTTP: with headers) that the receivers got
    requests: int = 0
    errors: int = 0
    retransmits: int = 0
    loss_ratio: float = 0.0
    latency: LatencyNs | None = None

    @property
    def gbps(self) -> float:
        return self.bytes * 8 / self.duration_s / 1e9 if self.duration_s else 0.0

    @property
    def requests_per_s(self) -> float:
        return self.requests / self.duration_s if self.duration_s else 0.0


def run_load(deployed: Deployed, workload: AnyWorkload, seconds: float, seed: int) -> Load:
    if isinstance(workload, HttpWorkload):
        return _http(deployed, workload, seconds, seed)
    if isinstance(workload, DnsWorkload):
        return _dns(deployed, workload, seconds)
    return _stream(deployed, workload, seconds)


def _http(deployed: Deployed, workload: HttpWorkload, seconds: float, seed: int) -> Load:
    """wrk takes whole seconds."""
    whole = max(1, round(seconds))
    text = deployed.client(
        "wrk", f"-t{workload.threads}", f"-c{workload.connections}", f"-d{whole}s",
        "-s", "/headrace/http.lua", f"http://{deployed.layout.target}:{PORT}", "--",
        str(workload.object_kb), str(workload.repeated), str(workload.hot_objects), str(seed),
        timeout_s=whole + _GRACE_S,
    )  # fmt: skip
    found = next((line for line in text.splitlines() if line.startswith(_MARK)), None)
    if found is None:
        raise HeadraceError("wrk: ended without a result")
    result = json.loads(found[len(_MARK) :])
    latency = {key: value * 1000.0 for key, value in result["latency_us"].items()}
    return Load(
        duration_s=result["duration_us"] / 1e6,
        bytes=result["bytes"],
        requests=result["requests"],
        errors=sum(result["errors"].values()),
        latency=LatencyNs(**latency) if result["requests"] else None,
    )


def _stream(deployed: Deployed, workload: StreamWorkload, seconds: float) -> Load:
    command = ["iperf3", "--json", "-c", deployed.layout.target, "-t", str(max(1, round(seconds))),
               "-P", str(workload.streams), "-b", f"{workload.rate_mbps}M"]  # fmt: skip
    if workload.kind == "udp":
        command.append("-u")
    if workload.length is not None:
        command += ["-l", str(workload.length)]
    text = deployed.client(*command, timeout_s=seconds + _GRACE_S)
    end: dict[str, Any] = json.loads(text)["end"]
    if workload.kind == "udp":
        total = end["sum"]
        lost = total["lost_packets"] / max(total["packets"], 1)
        received = int(total["bytes"] * (1 - lost))
        return Load(total["seconds"], received, loss_ratio=min(max(lost, 0.0), 1.0))
    received = end["sum_received"]
    return Load(
        received["seconds"], received["bytes"], retransmits=end["sum_sent"].get("retransmits", 0)
    )


_DNS_NUMBERS = {
    "sent": r"Queries sent:\s+(\d+)",
    "completed": r"Queries completed:\s+(\d+)",
    "seconds": r"Run time \(s\):\s+([\d.]+)",
    "response_bytes": r"response (\d+)",
}


def _dns(deployed: Deployed, workload: DnsWorkload, seconds: float) -> Load:
    """dnsperf; it has no percentiles of latency, so no latency is given."""
    queries = f"seq 0 {workload.names - 1} | sed 's/.*/h&.headrace.test A/' > /tmp/queries"
    run = (f"dnsperf -s {deployed.layout.target} -d /tmp/queries -l {max(1, round(seconds))} "
           f"-c {workload.clients} -q {max(100, workload.clients)}")  # fmt: skip
    text = deployed.client("sh", "-c", f"{queries} && {run}", timeout_s=seconds + _GRACE_S)
    found = {key: re.search(pattern, text) for key, pattern in _DNS_NUMBERS.items()}
    if found["completed"] is None or found["seconds"] is None:
        raise HeadraceError("dnsperf: ended without a result")
    number = {key: float(match[1]) for key, match in found.items() if match is not None}
    completed = int(number["completed"])
    return Load(
        duration_s=number["seconds"],
        bytes=int(completed * number.get("response_bytes", 0)),
        requests=completed,
        errors=int(number["sent"]) - completed,
        loss_ratio=1 - completed / max(number["sent"], 1),
    )
