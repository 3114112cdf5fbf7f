# SPDX-License-Identifier: Apache-2.0
"""Routing peers that mean harm, and one that announces a table beside them: what the table of one
VNF waits for because of what another's peer says."""

from __future__ import annotations

import contextlib
import functools
import itertools
import multiprocessing
import socket
import time
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Event
from typing import Any

from support.engine import Engine, memory_engine
from support.fpm import frames, group, next_hop, no_route, route

Attack = Callable[[socket.socket], Iterator[bytes]]

FORK = multiprocessing.get_context("fork")
GROUPS = 1000  # next-hop objects that lead to others; each has a route
WARM_S, PATIENCE_S = 0.3, 300


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as all_of_them:
        taken = [
            all_of_them.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)
        ]
        return [int(one.getsockname()[1]) for one in taken]


def plan(cpu: int, ports: list[int], hold_s: float = 3600) -> dict[str, Any]:
    """A router with a VNF for each FPM port, whose lcore sleeps."""
    vnfs = [
        {
            "name": f"v{i}", "fpm_port": port, "hold_s": hold_s,
            "interfaces": [{
                "name": "e0", "port": i, "mac": f"02:00:00:00:00:0{i}",
                "addresses": [f"10.{i}.0.1/16"],
                "neighbours": [
                    {"address": f"10.{i}.0.{n}", "mac": f"02:00:00:00:{i:02x}:{n:02x}"}
                    for n in range(2, 20)
                ],
            }],
        }
        for i, port in enumerate(ports)
    ]  # fmt: skip
    nodes = {"router": {"forward": {f"out{i}": "link:meas" for i in range(len(ports))}}}
    router = [{"link": "wire", "to": "router", "port": 0}]
    return {
        "version": 1,
        "engine": memory_engine(wait={"mode": "adaptive"}),
        "links": {
            "gen": {"type": "source", "params": {"frame_bytes": [64], "flows": 16}},
            "wire": {"type": "ring", "params": {}},
            "meas": {"type": "sink", "params": {}},
        },
        "nfs": {"router": {"type": "router", "params": {"vnfs": vnfs, "nodes": 200_000}}},
        "segments": [
            {"name": "in", "cpus": [cpu], "inputs": [{"link": "gen", "to": "link:wire"}]},
            {"name": "only", "cpus": [cpu], "inputs": router, "nodes": nodes},
        ],
    }


def prefixes(first: int, count: int) -> list[str]:
    return [f"{first + (i >> 16)}.{i >> 8 & 255}.{i & 255}.0/24" for i in range(count)]


def announces_again(connection: socket.socket) -> Iterator[bytes]:
    """The same routes, each time by another neighbour."""
    both = [frames(route(one, f"10.0.0.{n}") for one in prefixes(20, 5000)) for n in (2, 3)]
    return itertools.cycle(both)


def changes_a_member(connection: socket.socket) -> Iterator[bytes]:
    """A next hop that leads to others, of which all of its groups have a part."""
    messages = [next_hop(n, f"10.0.0.{n + 1}") for n in range(1, 17)]
    messages += [group(100 + i, range(1, 17)) for i in range(GROUPS)]
    messages += [route(one, object_=100 + i) for i, one in enumerate(prefixes(20, GROUPS))]
    connection.sendall(frames(messages))
    both = [next_hop(1, "10.0.0.18"), next_hop(1, "10.0.0.19")]
    return itertools.repeat(frames(both * 500))


def comes_and_goes(connection: socket.socket) -> Iterator[bytes]:
    """A table, then again and again a new session, which ends the last one. Where no more of
    them may wait the kernel tries again after a second, and the peer at once."""
    router = connection.getpeername()
    connection.sendall(frames(route(one, "10.0.0.2") for one in prefixes(20, 100_000)))
    while True:
        with (
            contextlib.suppress(ConnectionError, TimeoutError),
            socket.create_connection(router, timeout=0.005) as again,
        ):
            again.sendall(frames([no_route("20.0.0.0/24")]))
        yield b""


ATTACKS = [announces_again, changes_a_member, comes_and_goes]


def _attack(port: int, what: Callable[[socket.socket], Iterator[bytes]], begun: Event) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        for one in what(connection):
            if one:
                connection.sendall(one)
            begun.set()


@contextlib.contextmanager
def attacked(port: int, what: Callable[[socket.socket], Iterator[bytes]] | None) -> Iterator[None]:
    """By a process of its own, meanwhile; or by none."""
    if what is None:
        yield
        return
    begun = FORK.Event()
    peer = FORK.Process(target=_attack, args=(port, what, begun))
    peer.start()
    try:
        assert begun.wait(PATIENCE_S), "the attack has not begun"
        time.sleep(WARM_S)
        yield
    finally:
        peer.kill()
        peer.join()


def updates_of(engine: Engine, vnf: int) -> int:
    return int(_shown(engine, vnf)["updates"])


def _shown(engine: Engine, vnf: int) -> dict[str, Any]:
    reply = engine.call("update", nf="router", op={"op": "show"})["reply"]
    return dict(reply["vnfs"][vnf])


def routes_of(engine: Engine, vnf: int) -> int:
    return int(_shown(engine, vnf)["ipv4_routes"])


def sessions_of(engine: Engine, vnf: int) -> int:
    return int(_shown(engine, vnf)["sessions"])


def forwards(engine: Engine, vnf: int, address: str) -> bool:
    op = {"op": "lookup", "vnf": f"v{vnf}", "address": address}
    return bool(engine.call("update", nf="router", op=op)["reply"]["does"] == "forward")


@functools.cache
def table(vnf: int, count: int) -> tuple[bytes, bytes]:
    """What announces so many routes, and what withdraws them."""
    there = prefixes(60, count)
    put = frames(route(one, f"10.{vnf}.0.2") for one in there)
    return put, frames(no_route(one) for one in there)


def longest_answer_s(engine: Engine, port: int, count: int) -> float:
    """How long a request waits at most while a table is swept that a peer of VNF 0 leaves behind
    (`plan` with hold_s 0)."""
    with socket.create_connection(("127.0.0.1", port)) as peer:
        peer.sendall(table(0, count)[0])
        engine.wait_for(lambda: routes_of(engine, 0) == count, "the table", 60, 0.002)
    longest, there, deadline = 0.0, count, time.monotonic() + 60
    while there:
        assert time.monotonic() < deadline, f"{there} routes are left after a minute"
        asked = time.monotonic()
        there = routes_of(engine, 0)
        longest = max(longest, time.monotonic() - asked)
    return longest


def announced_s(engine: Engine, port: int, vnf: int, count: int) -> tuple[float, float]:
    """How long it takes until a table is known that a peer announces, and until it is gone again
    when it withdraws it."""
    put, away = table(vnf, count)
    with socket.create_connection(("127.0.0.1", port)) as peer:
        began = time.monotonic()
        peer.sendall(put)
        engine.wait_for(lambda: routes_of(engine, vnf) == count, "the table", 60, 0.002)
        known = time.monotonic()
        peer.sendall(away)
        engine.wait_for(lambda: routes_of(engine, vnf) == 0, "the table's end", 60, 0.002)
        return known - began, time.monotonic() - known
