# SPDX-License-Identifier: Apache-2.0
"""The other end of FPM: what a zebra would send, made up and sent at a given rate.

    python -m headrace.ground.offload.fpm --ports 2620,2621 --routes 1000 --rate 64000 --seconds 5

announces the routes over each port first, then changes them from one of two next hops to the other
at that rate, the ports in turn, and prints what it did as JSON. A rate of 0: announces, and keeps
the sessions open.
"""

from __future__ import annotations

import argparse
import ipaddress
import json
import socket
import struct
import time
from collections.abc import Iterable
from pathlib import Path

# linux/rtnetlink.h, linux/nexthop.h
_RTM_NEWROUTE, _RTM_DELROUTE, _RTM_NEWNEXTHOP = 24, 25, 104
_RTA_DST, _RTA_NH_ID = 1, 30
_NHA_ID, _NHA_OIF, _NHA_GATEWAY = 1, 5, 6
_AF_INET = 2
_TABLE_MAIN, _PROTO_ZEBRA, _UNICAST = 254, 11, 1
_TICK_S = 0.01
FIRST_ROUTE = ipaddress.IPv4Address("10.16.0.0")
_STEP = 16  # addresses of a route


def _attribute(kind: int, payload: bytes) -> bytes:
    padding = bytes(-len(payload) % 4)
    return struct.pack("=HH", len(payload) + 4, kind) + payload + padding


def _frame(kind: int, body: bytes) -> bytes:
    """A netlink message in an FPM frame: version 1, type 1, length in network order."""
    message = struct.pack("=IHHII", len(body) + 16, kind, 0x0401, 0, 0) + body
    return struct.pack("!BBH", 1, 1, len(message) + 4) + message


def next_hop(number: int, gateway: str, ifindex: int) -> bytes:
    body = struct.pack("=BBBBI", _AF_INET, 0, _PROTO_ZEBRA, 0, 0)
    body += _attribute(_NHA_ID, struct.pack("=I", number))
    body += _attribute(_NHA_GATEWAY, ipaddress.IPv4Address(gateway).packed)
    body += _attribute(_NHA_OIF, struct.pack("=I", ifindex))
    return _frame(_RTM_NEWNEXTHOP, body)


def route(prefix: ipaddress.IPv4Network, next_hop_id: int | None) -> bytes:
    """None withdraws it."""
    body = struct.pack(
        "=BBBBBBBBI",
        _AF_INET, prefix.prefixlen, 0, 0, _TABLE_MAIN, _PROTO_ZEBRA, 0, _UNICAST, 0,
    )  # fmt: skip
    body += _attribute(_RTA_DST, prefix.network_address.packed)
    if next_hop_id is None:
        return _frame(_RTM_DELROUTE, body)
    return _frame(_RTM_NEWROUTE, body + _attribute(_RTA_NH_ID, struct.pack("=I", next_hop_id)))


def prefixes(count: int, port: int = 0) -> list[ipaddress.IPv4Network]:
    """The routes of the port-th session, /28 each: one after the other, from 10.16.0.0 on."""
    first = int(FIRST_ROUTE) + _STEP * count * port
    return [ipaddress.IPv4Network((first + _STEP * i, 28)) for i in range(count)]


def destinations(vnfs: int, routes: int, flows: int) -> list[str]:
    """Flow i has the i-th, which goes with the i-th MAC, VNF after VNF: `flows` is a multiple of
    the VNFs, each with as many routes."""
    places = (routes * (i % vnfs) + i // vnfs % routes for i in range(flows))
    return [str(FIRST_ROUTE + _STEP * place + 1) for place in places]


def write_addresses(file: Path, addresses: Iterable[str]) -> None:
    """Writes them as a source reads them."""
    file.write_text("".join(f"{one}\n" for one in addresses))


class Feed:
    """Sessions, and the bytes of every change, made before any is sent."""

    def __init__(self, ports: Iterable[int], routes: int, gateways: tuple[str, str]) -> None:
        self._sockets = [socket.create_connection(("127.0.0.1", port), 10) for port in ports]
        of_port = [prefixes(routes, i) for i in range(len(self._sockets))]
        self._routes = routes
        self._changes = [
            [[route(net, number) for net in nets] for nets in of_port] for number in (1, 2)
        ]
        hops = b"".join(next_hop(i + 1, gateway, 2) for i, gateway in enumerate(gateways))
        for one, announced in zip(self._sockets, self._changes[0], strict=True):
            one.settimeout(None)
            one.sendall(hops + b"".join(announced))

    def run(self, rate: float, seconds: float) -> tuple[int, float]:
        """How many were sent, in how long: the receiver's pace holds when it is the slower."""
        sent, turn, at, which = 0, 0, 0, 1
        began = time.monotonic()
        while (now := time.monotonic() - began) < seconds:
            due = int(rate * now) - sent
            while due > 0:
                batch = self._changes[which][turn][at : at + min(due, 256)]
                self._sockets[turn].sendall(b"".join(batch))
                sent += len(batch)
                due -= len(batch)
                at += len(batch)
                if at >= self._routes:
                    at, turn = 0, turn + 1
                    if turn == len(self._sockets):
                        turn, which = 0, 1 - which
            time.sleep(_TICK_S)
        return sent, time.monotonic() - began

    def close(self) -> None:
        for one in self._sockets:
            one.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Announce routes over FPM, and change them.")
    parser.add_argument("--ports", required=True, help="TCP ports of 127.0.0.1, by commas")
    parser.add_argument("--routes", type=int, default=1024, help="per port")
    parser.add_argument("--gateways", default="10.255.0.1,10.255.0.2")
    parser.add_argument("--rate", type=float, default=64000, help="changes per second, in all")
    parser.add_argument("--seconds", type=float, default=1.0)
    arguments = parser.parse_args()
    first, second = arguments.gateways.split(",")
    feed = Feed(map(int, arguments.ports.split(",")), arguments.routes, (first, second))
    print("announced", flush=True)
    try:
        if arguments.rate > 0:
            sent, took = feed.run(arguments.rate, arguments.seconds)
            print(json.dumps({"updates": sent, "seconds": took, "per_s": sent / took}), flush=True)
        else:
            time.sleep(arguments.seconds)
    except KeyboardInterrupt:
        pass
    finally:
        feed.close()


if __name__ == "__main__":
    main()
