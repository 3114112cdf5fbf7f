# SPDX-License-Identifier: Apache-2.0
"""A capture replayed from the clients by tcpreplay, its addresses rewritten by tcprewrite."""

from __future__ import annotations

import re

from headrace.errors import HeadraceError
from headrace.ground.appliances.graph import ApplianceGraph
from headrace.ground.appliances.load.reported import GRACE_S, Counted, Load, whole_seconds
from headrace.host.tool import last_words
from headrace.spec.workload import Pcap

_GIVEN, _READY = "/tmp/given.pcap", "/tmp/ready.pcap"
_SENT = re.compile(r"Actual:\s+(\d+) packets \((\d+) bytes\) sent in ([\d.]+) seconds")
_DRAIN_S = "0.3"


def replay(deployed: ApplianceGraph, workload: Pcap, load_pps: float, seconds: float) -> Load:
    """All packets go from the client to the first server, whatever their direction was: there is
    one way in. What arrives is what the server's interface counts."""
    _prepare(deployed, workload)
    server = deployed.layout.of_kind("server")[0]
    device = server.interface("up").device
    pace = f"--pps={load_pps:g}" if load_pps else "--topspeed"
    before = deployed.interface_counts()[server.name][device]
    asked_s = whole_seconds(seconds)
    text = deployed.client(
        "sh", "-c",
        f"tcpreplay --intf1=down --preload-pcap --loop=0 --duration={asked_s} "
        f"{pace} {_READY} 2>&1; sleep {_DRAIN_S}",
        timeout_s=seconds + GRACE_S,
    )  # fmt: skip
    after = deployed.interface_counts()[server.name][device]
    count = _SENT.search(text)
    if count is None:
        raise HeadraceError(f"tcpreplay: ended without a result: {last_words(text)}")
    sent, received = int(count[1]), after.rx_packets - before.rx_packets
    took = float(count[3])
    return Load(
        duration_s=took,
        bytes=after.rx_bytes - before.rx_bytes,
        loss_ratio=min(1.0, max(0.0, 1 - received / sent)) if sent else 0.0,
        packets=Counted(
            round(load_pps * took) or sent, sent, received, asked_s=asked_s, strangers=True
        ),
    )


def _prepare(deployed: ApplianceGraph, workload: Pcap) -> None:
    layout = deployed.layout
    own = layout.client.interface("down")
    server = layout.of_kind("server")[0].interface("up")
    first = layout.first_hop
    deployed.give(workload.file, _GIVEN)
    deployed.client(
        "tcprewrite", f"--infile={_GIVEN}", f"--outfile={_READY}", "--dlt=enet", "--fixcsum",
        f"--enet-smac={own.mac}", f"--enet-dmac={first.mac}", "--mtu=1500", "--mtu-trunc",
        f"--srcipmap=0.0.0.0/0:{own.address}/32", f"--dstipmap=0.0.0.0/0:{server.address}/32",
    )  # fmt: skip
