# SPDX-License-Identifier: Apache-2.0
"""TCP and UDP streams by iperf3; request and response by netperf."""

from __future__ import annotations

from pydantic import BaseModel, Field, ValidationError

from headrace.errors import HeadraceError
from headrace.ground.appliances.graph import ApplianceGraph
from headrace.ground.appliances.load.reported import GRACE_S, Load, whole_seconds
from headrace.host.tool import last_words
from headrace.record.figures import LatencyNs
from headrace.spec.invalid import sentence
from headrace.spec.workload import RequestResponse, Stream

_NETPERF_PORT = 5202  # as vnfs/traffic/start has it
_DATA_PORT = 5203
_US = 1000.0
_MOST = (1 << 63) - 1


def stream(deployed: ApplianceGraph, workload: Stream, seconds: float) -> Load:
    command = ["iperf3", "--json", "-c", deployed.layout.target, "-t", str(whole_seconds(seconds)),
               "-P", str(workload.streams), "-b", f"{workload.rate_mbps}M"]  # fmt: skip
    if workload.kind == "udp":
        command.append("-u")
    if workload.length is not None:
        command += ["-l", str(workload.length)]
    text = deployed.client(*command, timeout_s=seconds + GRACE_S)
    return iperf3_load(text, udp=workload.kind == "udp")


class _Sum(BaseModel):
    bytes: int = Field(ge=0, le=_MOST)
    seconds: float = Field(gt=0, allow_inf_nan=False)
    packets: int = Field(0, ge=0, le=_MOST)
    lost_packets: int = Field(0, ge=-_MOST, le=_MOST)
    retransmits: int = Field(0, ge=0, le=_MOST)


class _UdpEnd(BaseModel):
    sum: _Sum


class _TcpEnd(BaseModel):
    sum_sent: _Sum
    sum_received: _Sum


class _Udp(BaseModel):
    end: _UdpEnd


class _Tcp(BaseModel):
    end: _TcpEnd


def iperf3_load(text: str, *, udp: bool) -> Load:
    """What its client says. It has the server's figures by the way that the VNFs have in hand."""
    try:
        if not udp:
            end = _Tcp.model_validate_json(text).end
            received = end.sum_received
            return Load(received.seconds, received.bytes, retransmits=end.sum_sent.retransmits)
        total = _Udp.model_validate_json(text).end.sum
    except ValidationError as error:
        raise HeadraceError(f"iperf3: says no result: {sentence(error)}") from None
    lost = total.lost_packets / max(total.packets, 1)
    received_bytes = int(total.bytes * (1 - lost))
    return Load(total.seconds, received_bytes, loss_ratio=min(max(lost, 0.0), 1.0))


_COLUMNS = {
    "MIN_LATENCY": "min",
    "MEAN_LATENCY": "mean",
    "P50_LATENCY": "p50",
    "P90_LATENCY": "p90",
    "P99_LATENCY": "p99",
    "MAX_LATENCY": "max",
}


def request_response(deployed: ApplianceGraph, workload: RequestResponse, seconds: float) -> Load:
    """netperf's classic request and response, one outstanding; it has no 99.9th percentile, so
    the greatest latency stands there."""
    whole = whole_seconds(seconds)
    wanted = ["THROUGHPUT", "ELAPSED_TIME", "TRANSPORT_RETRANS", *_COLUMNS]
    options = ["-r", f"{workload.request},{workload.response}", "-P", f",{_DATA_PORT}"]
    text = deployed.client(
        "netperf", "-4", "-H", deployed.layout.target, "-p", str(_NETPERF_PORT), "-t",
        workload.test, "-l", str(whole), "-P", "0", "--", *options, "-k", ",".join(wanted),
        timeout_s=whole + GRACE_S,
    )  # fmt: skip
    fields = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    if "THROUGHPUT" not in fields:
        raise HeadraceError(f"netperf: ended without a result: {last_words(text)}")
    elapsed = float(fields["ELAPSED_TIME"])
    requests = round(float(fields["THROUGHPUT"]) * elapsed)
    latency = {name: float(fields[column]) * _US for column, name in _COLUMNS.items()}
    return Load(
        duration_s=elapsed,
        bytes=requests * workload.response,
        requests=requests,
        retransmits=max(0, int(fields.get("TRANSPORT_RETRANS", "0"))),
        latency=LatencyNs(**latency, p999=latency["max"]),
    )


def has_netperf(deployed: ApplianceGraph) -> bool:
    done = deployed.inside(deployed.layout.client, "sh", "-c", "command -v netperf")
    return done.returncode == 0
