# SPDX-License-Identifier: Apache-2.0
"""Frames as bytes: captures read and written, headers made and told in words."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable
from pathlib import Path

import dpkt

ETHERNET = 14  # bytes of header
_IPV4, _IPV6 = 0x0800, 0x86DD
_WORDS_BYTES = 48


def read_frames(file: Path) -> list[bytes]:
    """The packets of a capture."""
    with file.open("rb") as raw:
        return [data for _, data in dpkt.pcap.UniversalReader(raw)]


def write_frames(file: Path, frames: Iterable[bytes]) -> None:
    with file.open("wb") as raw:
        writer = dpkt.pcap.Writer(raw, nano=False)
        for i, frame in enumerate(frames):
            writer.writepkt(frame, ts=i * 1e-3)


def checksum(data: bytes) -> int:
    """RFC 1071."""
    data += b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ipv4(
    src: str, dst: str, proto: int, payload: bytes, ttl: int = 64, fragment: int = 0x4000
) -> bytes:
    """A packet with a right header checksum. `fragment`: flags and offset (RFC 791)."""
    addresses = ipaddress.IPv4Address(src).packed + ipaddress.IPv4Address(dst).packed
    head = struct.pack(">BBHHHBB", 0x45, 0, 20 + len(payload), 7, fragment, ttl, proto)
    total = checksum(head + b"\0\0" + addresses)
    return head + struct.pack(">H", total) + addresses + payload


def ipv6(src: str, dst: str, proto: int, payload: bytes, hops: int = 64) -> bytes:
    addresses = ipaddress.IPv6Address(src).packed + ipaddress.IPv6Address(dst).packed
    return struct.pack(">IHBB", 6 << 28, len(payload), proto, hops) + addresses + payload


def framed(packet: bytes, dst: bytes, src: bytes, ethertype: int | None = None) -> bytes:
    """Puts an Ethernet header in front; IP's type by its version."""
    kind = ethertype or (_IPV4 if packet[0] >> 4 == 4 else _IPV6)
    return dst + src + struct.pack(">H", kind) + packet


def without_padding(frame: bytes) -> bytes:
    """Cut where the IP packet in it ends, if it holds one."""
    kind, length = int.from_bytes(frame[12:14]), len(frame)
    if kind == _IPV4 and length >= ETHERNET + 20:
        return frame[: ETHERNET + int.from_bytes(frame[16:18])]
    if kind == _IPV6 and length >= ETHERNET + 40:
        return frame[: ETHERNET + 40 + int.from_bytes(frame[18:20])]
    return frame


def with_right_header(frame: bytes) -> bytes | None:
    """None of an IPv4 packet whose header's checksum is wrong."""
    if int.from_bytes(frame[12:14]) != _IPV4 or len(frame) < ETHERNET + 20:
        return frame
    return None if checksum(frame[ETHERNET : ETHERNET + (frame[ETHERNET] & 15) * 4]) else frame


def with_right_sums(frame: bytes) -> bytes | None:
    """None of an IPv4 packet whose header's checksum is wrong, or that of the TCP, UDP or ICMP in
    it."""
    if with_right_header(frame) is None or int.from_bytes(frame[12:14]) != _IPV4:
        return with_right_header(frame)
    at = ETHERNET + (frame[ETHERNET] & 15) * 4
    payload, proto = frame[at : ETHERNET + int.from_bytes(frame[16:18])], frame[23]
    if proto not in (1, 6, 17) or (proto == 17 and payload[6:8] == b"\0\0"):
        return frame
    pseudo = b"" if proto == 1 else frame[26:34] + struct.pack(">HH", proto, len(payload))
    return None if checksum(pseudo + payload) else frame


def in_words(frame: bytes) -> str:
    """MAC addresses, then as much of IP as there is."""
    to, by = (":".join(f"{b:02x}" for b in frame[i : i + 6]) for i in (0, 6))
    kind = int.from_bytes(frame[12:14])
    text = f"{by} > {to}, {len(frame)} B, "
    if kind == _IPV4 and len(frame) >= ETHERNET + 20:
        ip = frame[ETHERNET:]
        src, dst = ipaddress.IPv4Address(ip[12:16]), ipaddress.IPv4Address(ip[16:20])
        at = (ip[0] & 15) * 4
        ports = ""
        if ip[9] in (6, 17, 132) and len(ip) >= at + 4 and not int.from_bytes(ip[6:8]) & 0x1FFF:
            ports = " ports {} > {}".format(*struct.unpack(">HH", ip[at : at + 4]))
        return f"{text}IPv4 {src} > {dst} protocol {ip[9]} TTL {ip[8]}{ports}"
    if kind == _IPV6 and len(frame) >= ETHERNET + 40:
        ip = frame[ETHERNET:]
        src6, dst6 = ipaddress.IPv6Address(ip[8:24]), ipaddress.IPv6Address(ip[24:40])
        return f"{text}IPv6 {src6} > {dst6} next header {ip[6]} hop limit {ip[7]}"
    return f"{text}type 0x{kind:04x} {frame[ETHERNET:_WORDS_BYTES].hex()}"
