# SPDX-License-Identifier: Apache-2.0
"""What the kernel's bridge lets through of what an owner with a licence sends, and what it counts
of the rest: frames of a packet socket's, without any engine."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.ground.hosted.bridged import KernelBridge
from headrace.ground.hosted.licence import RateCap
from headrace.ground.hosted.ports import SwitchPort
from headrace.host.ledger import Ledger
from headrace.host.plumbing import within
from headrace.record.figures import L1_OVERHEAD_BYTES
from support.netns import netns_refusal

pytestmark = pytest.mark.needs_root

TESTER, VNF = "02:00:00:00:00:01", "02:00:00:00:00:02"
SECONDS, QUEUE, CLOSE = 1.5, 64, 0.02
BUCKET_S = 0.05  # who sends may be kept from its CPU for so long
NOBODYS = 0x88B5  # IEEE 802.1's ethertype for experiments
FCS = 4


def bridge(ledger: Ledger, gbps: float) -> KernelBridge:
    cap = RateCap(gbps, int(gbps * 1e9 / 8 * BUCKET_S), ip_share=1)
    ports = (
        SwitchPort("", 0, "wire0", TESTER, ""),
        SwitchPort("vnf1.1", 0, "vf", VNF, "", cap),
    )
    return KernelBridge(ports, ledger, taps=False)


@dataclass(frozen=True)
class Sent:
    frames: int
    seconds: float
    pause_s: float  # the longest in which nothing was sent


def send(frame: int, pps: float) -> Sent:
    """Sends evenly: what could not be sent in time is not made up for."""
    to, source = (bytes.fromhex(mac.replace(":", "")) for mac in (TESTER, VNF))
    packet = to + source + NOBODYS.to_bytes(2, "big")
    packet += bytes(frame - FCS - len(packet))
    frames, pause = 0, 0.0
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as out:
        out.bind(("vf", 0))
        began = last = due = time.monotonic()
        while (now := time.monotonic()) < began + SECONDS:
            if now >= due:
                out.send(packet)
                frames, pause, last = frames + 1, max(pause, now - last), now
                due = max(due, now - 8 / pps) + 1 / pps
    return Sent(frames, now - began, pause)


def passed(switch: KernelBridge, frame: int, pps: float) -> tuple[Sent, int, int]:
    """What the VNF sent, and of that the frames that came to the tester and those capped."""
    before = switch.counts()
    sent = within(switch.namespace_of("vnf1.1"), lambda: send(frame, pps))
    time.sleep(QUEUE / pps * 2 + 0.1)
    after = switch.counts()
    vnf, tester = ((before[key], after[key]) for key in (("vnf1.1", "vf"), ("", "wire0")))
    assert vnf[1].rx_packets - vnf[0].rx_packets == sent.frames
    carried = tester[1].tx_packets - tester[0].tx_packets
    return sent, carried, vnf[1].rx_capped - vnf[0].rx_capped


@pytest.mark.parametrize(("frame", "gbps"), [(64, 0.0005), (1518, 0.01), (1518, 0.1)])
def test_a_licence_is_what_the_bridge_lets_through(tmp_path: Path, frame: int, gbps: float) -> None:
    """The known answer: the rate's frames of layer 1, and a bucket and a queue beside."""
    if refusal := netns_refusal():
        pytest.skip(refusal)
    ledger = Ledger(tmp_path)
    limit_pps = gbps * 1e9 / ((frame + L1_OVERHEAD_BYTES) * 8)
    try:
        switch = bridge(ledger, gbps)
        switch.wait_up()
        sent, carried, capped = passed(switch, frame, 0.5 * limit_pps)
        assert sent.frames == carried and capped == 0
        sent, carried, capped = passed(switch, frame, 3 * limit_pps)
        assert carried + capped == sent.frames
    finally:
        ledger.undo()
    assert not list(Path("/run/netns").glob(f"{switch.namespace_of('')}*"))
    if sent.pause_s > BUCKET_S or sent.frames < 1.3 * limit_pps * sent.seconds:
        pytest.skip(f"the machine kept the sender from its CPU, for {sent.pause_s:.3f} s at a time")
    pps = (carried - QUEUE - limit_pps * BUCKET_S) / sent.seconds
    assert pps == pytest.approx(limit_pps, rel=CLOSE) and capped
