# SPDX-License-Identifier: Apache-2.0
"""What a capture says of its traffic: sizes, flows, protocols. Read by dpkt, as it needs neither an
engine nor root. It may be a stranger's: no more of it is in memory than one of its blocks, however
long it says that this is, and however much a file in gzip unfolds to."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import dpkt
import numpy as np

from headrace.errors import BadInput
from headrace.spec.imix import FRAME_MAX, FRAME_MIN

_GZIP = b"\x1f\x8b"  # RFC 1952 section 2.3.1
_FCS = 4
BLOCK_MOST = 1 << 20  # bytes of a packet or of a block of pcapng; tcpdump takes a quarter of it
# What dpkt raises of bytes that are no header.
_UNREADABLE = (dpkt.dpkt.Error, LookupError, ValueError, struct.error)
CLASSES = 64  # parts of equally many packets that a mix is made of


@dataclass(frozen=True)
class CapturedFlow:
    """What a source gives its packets, one way."""

    src: bytes
    dst: bytes
    src_port: int
    dst_port: int
    protocol: int

    @property
    def ipv6(self) -> bool:
        return len(self.src) == 16


@dataclass
class Capture:
    packets: int = 0
    sizes: Counter[int] = field(default_factory=Counter)  # bytes with FCS, as on the wire
    flows: Counter[CapturedFlow] = field(default_factory=Counter)  # packets of each
    fragments: int = 0  # behind the first, which have no ports
    others: int = 0  # that are not IP

    def mix(self) -> dict[int, int]:
        """Sizes and weights: the mean size of each 64th of the packets, ordered by size; all of
        them where there are no more."""
        sizes = sorted(self.sizes.items())
        total = self.sizes.total()
        parts = min(CLASSES, total)
        # A packet on the edge of two parts belongs to both, so that the mean stays what it is.
        edges = np.arange(parts + 1) * (total / parts)
        packets = np.cumsum([0, *(count for _, count in sizes)])
        upto = np.interp(edges, packets, np.cumsum([0, *(size * count for size, count in sizes)]))
        means = np.diff(upto) * (parts / total)
        return dict(Counter(round(float(mean)) for mean in means))


def read(file: Path) -> Capture:
    """BadInput names the file and what is wrong with it."""
    capture = Capture()
    try:
        for data, length in _packets(file):
            capture.packets += 1
            capture.sizes[min(max(length + _FCS, FRAME_MIN), FRAME_MAX)] += 1
            _note(capture, data)
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror or error}") from None
    except (*_UNREADABLE, EOFError, zlib.error) as error:
        unit = " (bytes)" if isinstance(error, dpkt.dpkt.NeedData) else ""  # it says of what not
        at = f"packet {capture.packets + 1}"
        raise BadInput(f"{file}: {at}: not a capture: {error}{unit}") from None
    if not capture.packets:
        raise BadInput(f"{file}: holds no packet; allowed: a capture with at least one")
    return capture


def _packets(file: Path) -> Iterator[tuple[bytes, int]]:
    """Each packet's bytes, and how many it had on the wire."""
    if file.exists() and not file.is_file():
        raise BadInput(f"{file}: is no regular file; allowed: a capture")
    with file.open("rb") as raw:
        zipped = raw.read(len(_GZIP)) == _GZIP
        raw.seek(0)
        reader = dpkt.pcap.UniversalReader(_Blocks(gzip.GzipFile(fileobj=raw) if zipped else raw))
        if reader.datalink() != dpkt.pcap.DLT_EN10MB:
            raise BadInput(f"{file}: link type {reader.datalink()}; allowed: Ethernet (1)")
        for _, packet in reader:
            yield packet, len(packet)


class _Blocks:
    """A capture as dpkt reads it: as many bytes at once as the capture itself says."""

    def __init__(self, file: BinaryIO | gzip.GzipFile) -> None:
        self._file = file

    def read(self, count: int) -> bytes:
        if not 0 <= count <= BLOCK_MOST:
            raise ValueError(f"a block of {count} bytes; allowed: {BLOCK_MOST}")
        return self._file.read(count)

    def seek(self, to: int) -> None:
        self._file.seek(to)


def _note(capture: Capture, data: bytes) -> None:
    try:
        network: Any = dpkt.ethernet.Ethernet(data).data
    except _UNREADABLE:
        network = None
    if isinstance(network, dpkt.ip.IP):
        if network.offset:
            capture.fragments += 1
            return
        protocol = network.p
    elif isinstance(network, dpkt.ip6.IP6):
        protocol = network.p
    else:
        capture.others += 1
        return
    inner = network.data
    src_port, dst_port = 0, 0
    if isinstance(inner, dpkt.tcp.TCP | dpkt.udp.UDP):
        src_port, dst_port = inner.sport, inner.dport
    capture.flows[CapturedFlow(network.src, network.dst, src_port, dst_port, protocol)] += 1
