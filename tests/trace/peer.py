# SPDX-License-Identifier: Apache-2.0
"""Traffic for the tracer's tests, run inside a network namespace: real sockets, plain Python.

Each UDP datagram carries its number and the send time (CLOCK_MONOTONIC, one clock for all
namespaces), so that the receiver times each packet without the tracer. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import select
import socket
import struct
import sys
import time
from pathlib import Path

HEADER = struct.Struct("!16sQQ")  # the audit looks behind the first 16 bytes
IP_MTU_DISCOVER, IP_PMTUDISC_DONT = 10, 0


def send(a: argparse.Namespace) -> dict[str, float]:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    if a.may_fragment:
        s.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT)
    s.connect((a.host, a.port))
    fill = bytes(a.bytes - HEADER.size)
    for n in range(a.count):
        s.send(HEADER.pack(b"same for all....", n, time.monotonic_ns()) + fill)
        if a.gap_ms:
            time.sleep(a.gap_ms / 1000)
    return {"sent": a.count}


def receive(a: argparse.Namespace) -> dict[str, float]:
    """All that are sent, or until nothing came for 3 s; `delay_ms` before each read is queueing."""
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, a.buffer)
    s.bind((a.host, a.port))
    Path(a.ready).touch()
    waits = []
    s.settimeout(10)
    while len(waits) < a.count:
        if a.delay_ms:
            time.sleep(a.delay_ms / 1000)
        try:
            data = s.recv(65536)
        except TimeoutError:
            break
        waits.append(time.monotonic_ns() - HEADER.unpack_from(data)[2])
        s.settimeout(3)
    return {"received": len(waits), "mean_ns": sum(waits) / len(waits) if waits else 0}


def stream(a: argparse.Namespace) -> dict[str, float]:
    s = socket.create_connection((a.host, a.port), timeout=10)
    data, sent, end = bytes(a.bytes), 0, time.monotonic() + a.seconds
    while time.monotonic() < end:
        s.sendall(data)
        sent += len(data)
    s.close()
    return {"sent_bytes": sent}


def ask(a: argparse.Namespace) -> dict[str, float]:
    """Messages over TCP, each after the answer to the one before: none are merged."""
    s = socket.create_connection((a.host, a.port), timeout=10)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    fill = bytes(a.bytes - HEADER.size)
    for n in range(a.count):
        s.send(HEADER.pack(b"same for all....", n, time.monotonic_ns()) + fill)
        s.recv(1)
    s.close()
    return {"sent": a.count}


def answer(a: argparse.Namespace) -> dict[str, float]:
    """`delay_ms` between a message's arrival and its reading is time in the socket's queue."""
    with socket.create_server((a.host, a.port)) as server:
        Path(a.ready).touch()
        server.settimeout(10)
        connection, _ = server.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    waits = []
    while select.select([connection], [], [], 10)[0]:
        time.sleep(a.delay_ms / 1000)
        data = connection.recv(a.bytes)
        if not data:
            break
        waits.append(time.monotonic_ns() - HEADER.unpack_from(data)[2])
        connection.send(b"x")
    return {"received": len(waits), "mean_ns": sum(waits) / len(waits) if waits else 0}


def accept(a: argparse.Namespace) -> dict[str, float]:
    with socket.create_server((a.host, a.port)) as server:
        Path(a.ready).touch()
        server.settimeout(10)
        connection, _ = server.accept()
    got = 0
    while data := connection.recv(1 << 20):
        got += len(data)
    return {"received_bytes": got}


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("do", choices=["send", "receive", "stream", "accept", "ask", "answer"])
    p.add_argument("--host", default="0.0.0.0")
    p.add_argument("--port", type=int, default=7000)
    p.add_argument("--count", type=int, default=1000)
    p.add_argument("--bytes", type=int, default=200)
    p.add_argument("--gap-ms", type=float, default=0)
    p.add_argument("--delay-ms", type=float, default=0)
    p.add_argument("--buffer", type=int, default=4 << 20)
    p.add_argument("--seconds", type=float, default=0.5)
    p.add_argument("--may-fragment", action="store_true")
    p.add_argument("--ready", default="/dev/null")
    a = p.parse_args()
    json.dump(globals()[a.do](a), sys.stdout)


if __name__ == "__main__":
    main()
