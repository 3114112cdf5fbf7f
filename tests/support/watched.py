# SPDX-License-Identifier: Apache-2.0
"""TCP streams with a text in halves, and functions that look for the whole of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import wrpcap

STREAMS = 500
_RULE = 'alert tcp any any -> any any (content:"half of it and the rest"; sid:1;)'
_ROOM = {"flows": 2 * STREAMS, "streams": 2 * STREAMS}
WATCHING: dict[str, dict[str, Any]] = {
    "dpi": {"type": "dpi", "params": {"rules": [_RULE], **_ROOM}},
    "ids": {"type": "ids", "params": {"rules": [_RULE], "eve_file": "/dev/null", **_ROOM}},
}


def streams(capture: Path) -> Path:
    """All streams begin, then each has the first half of the text, then each the second one."""
    parts = ((b"", "S"), (b"half of it", "A"), (b" and the rest", "A"))
    wrpcap(
        str(capture),
        [
            Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
            / IP(src=f"10.0.{i // 250}.{i % 250 + 1}", dst="198.18.0.1")
            / TCP(sport=4000, dport=80, flags=flags, seq=1 + len(b"".join(before)) + (part > 0))
            / Raw(text)
            for part, (text, flags) in enumerate(parts)
            for before in ([one for one, _ in parts[:part]],)
            for i in range(STREAMS)
        ],
    )
    return capture


def source_of(capture: Path) -> dict[str, Any]:
    """A link of a plan that sends them."""
    params = {"pcap_file": str(capture), "pcap_timing": "load", "stamp": False}
    return {"type": "source", "params": params}
