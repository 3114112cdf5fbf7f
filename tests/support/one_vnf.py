# SPDX-License-Identifier: Apache-2.0
"""A host's engine and one VNF behind it, by plans of their own, and frames that they carry."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.ground.engines.frames import checksum, framed, ipv4, ipv6
from support.engine import memory_engine

MACS = {"dst_mac": "02:00:00:00:00:09", "src_mac": "02:00:00:00:00:08"}
OUT = {"firewall": "pass", "acl": "pass"}


def host_plan(cpu: int, socket: Path, source: dict[str, Any], **shm: int) -> dict[str, Any]:
    """A source, a VNF behind a link with these parameters, and a sink."""
    vf = {"socket": str(socket), "times": True, **shm}
    return {
        "version": 1,
        "engine": memory_engine(),
        "links": {
            "gen": {"type": "source", "params": source},
            "vf": {"type": "shm", "params": vf},
            "meas": {"type": "sink", "params": {}},
        },
        "segments": [
            {"name": "out", "cpus": [cpu], "inputs": [{"link": "gen", "to": "link:vf"}]},
            {"name": "in", "cpus": [cpu], "inputs": [{"link": "vf", "to": "link:meas"}]},
        ],
    }


def vnf_plan(
    cpu: int, socket: Path, functions: Sequence[dict[str, Any]], flows: int = 0, **shm: int
) -> dict[str, Any]:
    """These functions, `fn0` and so on, and behind them `mac-out`; `flows` of a fast path."""
    vf = {"socket": str(socket), "role": "client", "wait_link_ms": 10000, **shm}
    names = [f"fn{i}" for i in range(len(functions))]
    nodes = {
        name: {"forward": {OUT.get(one["type"], "out"): to}}
        for name, one, to in zip(names, functions, [*names[1:], "mac-out"], strict=True)
    }
    nfs = dict(zip(names, functions, strict=True))
    return {
        "version": 1,
        "engine": memory_engine(memory_mb=128, mbufs=4096, wait={"mode": "adaptive"}),
        "links": {"vf": {"type": "shm", "params": vf}},
        "nfs": {**nfs, "mac-out": {"type": "l2fwd", "params": MACS}},
        "segments": [
            {
                "name": "vnf",
                "cpus": [cpu],
                "fastpath": flows,
                "inputs": [{"link": "vf", "to": "fn0"}],
                "nodes": {**nodes, "mac-out": {"forward": {"out": "link:vf"}}},
            }
        ],
    }


def replayed(file: Path, out: Path, cpu: int, socket: Path, **shm: int) -> dict[str, Any]:
    """The host's plan, with a capture for a source, and another of what comes back."""
    plan = host_plan(cpu, socket, {"pcap_file": str(file), "stamp": False}, **shm)
    devargs = f"net_pcap_out,tx_pcap={out}"
    plan["links"]["meas"] = {"type": "port", "params": {"devargs": devargs}}
    return plan


def with_ports(
    src: str,
    dst: str,
    sport: int,
    dport: int,
    payload: bytes,
    flags: int | None = None,
    ttl: int = 64,
) -> bytes:
    """A frame of UDP, or of TCP with these flags; its checksum is right."""
    proto = 17 if flags is None else 6
    v6 = ":" in src
    head = struct.pack(">HHHH", sport, dport, 8 + len(payload), 0)
    if flags is not None:
        head = struct.pack(">HHIIBBHHH", sport, dport, 1, 1, 0x50, flags, 512, 0, 0)
    at, body = (6 if flags is None else 16), head + payload
    ends = ipaddress.ip_address(src).packed + ipaddress.ip_address(dst).packed
    kind = struct.pack(">II" if v6 else ">HH", *((len(body), proto) if v6 else (proto, len(body))))
    total = checksum(ends + kind + body) or 0xFFFF
    body = body[:at] + struct.pack(">H", total) + body[at + 2 :]
    packet = (ipv6 if v6 else ipv4)(src, dst, proto, body, ttl)
    return framed(packet, b"\2\0\0\0\0\5", b"\2\0\0\0\0\6")
