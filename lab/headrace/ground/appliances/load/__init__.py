# SPDX-License-Identifier: Apache-2.0
"""Well-kept load generators, run at the clients; and headrace's own source and sink."""

from __future__ import annotations

from headrace.ground.appliances.deploy import Deployed
from headrace.ground.appliances.load.base import Load, Packets
from headrace.ground.appliances.load.dns import dns
from headrace.ground.appliances.load.http import http
from headrace.ground.appliances.load.packets import packets
from headrace.ground.appliances.load.replay import replay
from headrace.ground.appliances.load.stream import has_netperf, request_response, stream
from headrace.spec.appliance import (
    AnyWorkload,
    DnsWorkload,
    HttpWorkload,
    PacketsWorkload,
    PcapWorkload,
    RequestWorkload,
)

__all__ = ["Load", "Packets", "has_netperf", "run_load"]


def run_load(deployed: Deployed, workload: AnyWorkload, seconds: float, seed: int) -> Load:
    if isinstance(workload, HttpWorkload):
        return http(deployed, workload, seconds, seed)
    if isinstance(workload, DnsWorkload):
        return dns(deployed, workload, seconds)
    if isinstance(workload, RequestWorkload):
        return request_response(deployed, workload, seconds)
    if isinstance(workload, PcapWorkload):
        return replay(deployed, workload, seconds)
    if isinstance(workload, PacketsWorkload):
        return packets(deployed, workload, seconds)
    return stream(deployed, workload, seconds)
