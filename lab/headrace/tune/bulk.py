# SPDX-License-Identifier: Apache-2.0
"""NfvInsight's workload: sends of 64 KB, as fast as they go, over TCP or UDP. Run inside a
namespace.

iperf3 of today's distributions can neither cut a UDP send by UDP_SEGMENT nor say whether the
payload is what was sent, hence one of our own. The receiver prints JSON: the bytes that came, in
how long, and how many messages were compared with what was sent.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import socket
import sys
import time
from pathlib import Path

PORT = 7010
MESSAGE_MAX = 65507  # of UDP over IPv4: 65535 less 28 of headers
_IP_MTU_DISCOVER, _IP_PMTUDISC_DONT = 10, 0  # linux/in.h
_UDP_SEGMENT, _UDP_GRO = 103, 104  # linux/udp.h
_SO_RCVBUFFORCE, _BUFFER = 33, 8 << 20
_COMPARED = 16  # one message of so many
_SILENCE_S = 1.0  # after which a sender has ended
_START_S = 20.0


def message(size: int) -> bytes:
    """Bytes that differ from place to place: what is lost or moved shows."""
    return bytes((i * 31 + (i >> 8) * 7) & 0xFF for i in range(size))


def receive_udp(a: argparse.Namespace) -> dict[str, float]:
    expected = message(a.bytes)
    buffer = bytearray(1 << 17)
    view = memoryview(buffer)
    total = wrong = compared = count = 0
    first = last = 0.0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
        if a.segment:
            s.setsockopt(socket.IPPROTO_UDP, _UDP_GRO, 1)
        s.bind((a.host, PORT))
        ready = Path(a.ready)
        ready.touch()
        s.settimeout(_SILENCE_S)
        deadline = time.monotonic() + _START_S
        while True:
            try:
                size = s.recv_into(buffer)
            except TimeoutError:
                if count or not ready.exists() or time.monotonic() > deadline:
                    break
                continue
            last = time.monotonic()
            if not count:
                first, before = last, resource.getrusage(resource.RUSAGE_SELF)
            total += size
            if count % _COMPARED == 0 and not a.segment:
                compared += 1
                wrong += view[:size] != expected
            count += 1
    return _said(total, last - first, compared, wrong, before if count else None)


def receive_tcp(a: argparse.Namespace) -> dict[str, float]:
    expected = memoryview(message(a.bytes) * (2 + (1 << 20) // a.bytes))
    buffer = bytearray(1 << 20)
    view = memoryview(buffer)
    total = wrong = compared = count = 0
    with socket.create_server((a.host, PORT)) as server:
        Path(a.ready).touch()
        server.settimeout(_START_S)
        s, _ = server.accept()
    before = resource.getrusage(resource.RUSAGE_SELF)
    first = time.monotonic()
    while size := s.recv_into(buffer):
        if count % _COMPARED == 0:
            at = total % a.bytes
            compared += 1
            wrong += view[:size] != expected[at : at + size]
        total += size
        count += 1
    return _said(total, time.monotonic() - first, compared, wrong, before)


def _said(
    total: int,
    seconds: float,
    compared: int,
    wrong: int,
    before: resource.struct_rusage | None,
) -> dict[str, float]:
    return {
        "bytes": total, "seconds": seconds, "compared": compared, "wrong": wrong,
        "cpu_s": _cpu_s(before) if before else 0.0,
    }  # fmt: skip


def _cpu_s(before: resource.struct_rusage) -> float:
    now = resource.getrusage(resource.RUSAGE_SELF)
    return now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime


def send(a: argparse.Namespace) -> dict[str, float]:
    data = message(a.bytes)
    before = resource.getrusage(resource.RUSAGE_SELF)
    total = 0
    with _connected(a) as s:
        first = time.monotonic()
        end = first + a.seconds
        while time.monotonic() < end:
            total += s.send(data) if a.protocol == "udp" else _all(s, data)
        seconds = time.monotonic() - first
    return {"bytes": total, "seconds": seconds, "cpu_s": _cpu_s(before)}


def _all(s: socket.socket, data: bytes) -> int:
    s.sendall(data)
    return len(data)


def _connected(a: argparse.Namespace) -> socket.socket:
    if a.protocol == "tcp":
        return socket.create_connection((a.host, PORT), timeout=_START_S)
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    # Larger than the MTU: cut on the way, not refused.
    s.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_DONT)
    if a.segment:
        s.setsockopt(socket.IPPROTO_UDP, _UDP_SEGMENT, a.segment)
    s.connect((a.host, PORT))
    return s


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("do", choices=["send", "receive"])
    p.add_argument("--protocol", choices=["tcp", "udp"], required=True)
    p.add_argument("--host", required=True)
    p.add_argument("--bytes", type=int, required=True)
    p.add_argument("--seconds", type=float, default=1.0)
    p.add_argument("--segment", type=int, default=0, help="UDP_SEGMENT's size; 0: none")
    p.add_argument("--cpu", type=int, default=-1)
    p.add_argument("--ready", default="/dev/null")
    a = p.parse_args()
    if a.cpu >= 0:
        os.sched_setaffinity(0, {a.cpu})
    receive = receive_udp if a.protocol == "udp" else receive_tcp
    json.dump(send(a) if a.do == "send" else receive(a), sys.stdout)


if __name__ == "__main__":
    main()
