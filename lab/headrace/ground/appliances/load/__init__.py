# SPDX-License-Identifier: Apache-2.0
"""Well-kept load generators, run at the clients; and headrace's own source and sink."""

from __future__ import annotations

from headrace.ground.appliances.graph import ApplianceGraph
from headrace.ground.appliances.load.dns import dns
from headrace.ground.appliances.load.http import http
from headrace.ground.appliances.load.packets import PacketsLoad
from headrace.ground.appliances.load.replay import replay
from headrace.ground.appliances.load.reported import Counted, Load
from headrace.ground.appliances.load.stream import has_netperf, request_response, stream
from headrace.spec.workload import AnyWorkload, Dns, Http, Packets, Pcap, RequestResponse

__all__ = ["Counted", "Load", "PacketsLoad", "has_netperf", "run_load"]


def run_load(
    deployed: ApplianceGraph, workload: AnyWorkload, load_pps: float, seconds: float, seed: int
) -> Load:
    """`load_pps`: of a capture; 0 is as fast as possible. Packets are a PacketsLoad."""
    assert not isinstance(workload, Packets)
    if isinstance(workload, Http):
        return http(deployed, workload, seconds, seed)
    if isinstance(workload, Dns):
        return dns(deployed, workload, seconds)
    if isinstance(workload, RequestResponse):
        return request_response(deployed, workload, seconds)
    if isinstance(workload, Pcap):
        return replay(deployed, workload, load_pps, seconds)
    return stream(deployed, workload, seconds)
