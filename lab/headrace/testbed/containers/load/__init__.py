# SPDX-License-Identifier: Apache-2.0
"""Well-kept load generators, run at the clients; and headrace's own source and sink."""

from __future__ import annotations

from headrace.spec.appliance import (
    AnyWorkload,
    DnsWorkload,
    HttpWorkload,
    PacketsWorkload,
    PcapWorkload,
    RequestWorkload,
)
from headrace.testbed.containers.deploy import Deployed
from headrace.testbed.containers.load.base import Load, Packets
from headrace.testbed.containers.load.dns import dns
from headrace.testbed.containers.load.http import http
from headrace.testbed.containers.load.packets import packets
from headrace.testbed.containers.load.replay import replay
from headrace.testbed.containers.load.stream import has_netperf, request_response, stream

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
