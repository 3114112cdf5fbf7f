# SPDX-License-Identifier: Apache-2.0
"""What in a server's description cannot be true together. Each is a key, and what is allowed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from headrace.spec.described import DescribedServer
from headrace.spec.document import PathKey

Contradiction = tuple[tuple[PathKey, ...], str]
_ABOVE_ZERO = ("transfer_cycles", "remote_cycles", "memory_gbs", "interconnect_gbs", "thread_speed")


def contradictions(server: DescribedServer) -> Iterator[Contradiction]:
    yield from _levels(server)
    yield from _sizes(server)
    yield from _ports(server)
    yield from _sources(server)
    yield from _costs(server)


def _levels(server: DescribedServer) -> Iterator[Contradiction]:
    *caches, memory = server.levels
    for i, level in enumerate(caches):
        at, cores = ("levels", i), server.cores_per_socket
        if level.kib is None:
            yield at, f"{level.name} has no `kib`; allowed: caches with it, then memory without"
        elif not level.kib.value:
            yield (*at, "kib"), "0 KiB; allowed: more than 0"
        if cores % level.shared_by:
            shares = ", ".join(str(n) for n in range(1, cores + 1) if cores % n == 0)
            yield (
                (*at, "shared_by"),
                (
                    f"{level.shared_by} cores share one {level.name}, which do not add up to the "
                    f"{cores} of a socket; allowed: {shares}"
                ),
            )
    if memory.kib is not None:
        yield (
            ("levels", len(caches)),
            (
                f"{memory.name} is the last level and has `kib`: a node has no memory; allowed: "
                "caches with it, then memory without"
            ),
        )
    for i, (near, far) in enumerate(pairwise(server.levels), 1):
        if near.kib is not None and far.kib is not None and near.kib.value >= far.kib.value:
            yield (
                ("levels", i, "kib"),
                (
                    f"{far.name} has {far.kib.value:g} KiB; allowed: more than {near.name}, which "
                    f"has {near.kib.value:g}"
                ),
            )
        if near.cycles.value > far.cycles.value:
            yield (
                ("levels", i, "cycles"),
                (
                    f"{far.name} takes {far.cycles.value:g}; allowed: at least {near.name}'s "
                    f"{near.cycles.value:g}"
                ),
            )
        if far.kib is not None and near.shared_by > far.shared_by:
            yield (
                ("levels", i, "shared_by"),
                (f"{far.shared_by}; allowed: at least {near.name}'s {near.shared_by}"),
            )


def _sizes(server: DescribedServer) -> Iterator[Contradiction]:
    for key in _ABOVE_ZERO:
        figure = getattr(server, key)
        if figure is not None and not figure.value:
            yield (key,), "0; allowed: more than 0"
    near, far, speed = server.transfer_cycles, server.remote_cycles, server.thread_speed
    if near is not None and far is not None and far.value < near.value:
        yield (
            ("remote_cycles",),
            (
                f"{far.value:g} for a line of another socket; allowed: at least `transfer_cycles`, "
                f"{near.value:g}"
            ),
        )
    if speed is not None and speed.value > 1:
        yield ("thread_speed",), f"{speed.value:g}; allowed: at most 1, what a thread alone does"
    if speed is not None and server.threads_per_core == 1:
        yield ("thread_speed",), "cores have one thread; allowed: with `threads_per_core` above 1"
    if server.scheduler is not None:
        latency, least = server.scheduler.latency_us.value, server.scheduler.least_us.value
        if least > latency:
            yield ("scheduler", "least_us"), f"{least:g}; allowed: at most latency_us, {latency:g}"
    if server.pauses is not None:
        away = server.pauses.per_s.value * sum(server.pauses.us) / len(server.pauses.us) / 1e6
        if away >= 1 or min(server.pauses.us) < 0:
            yield (
                ("pauses",),
                (
                    f"lcores stand still for {away:g} of all time; allowed: lengths above 0, and "
                    "less than all of it"
                ),
            )
    if server.power is not None and server.power.idle_watts.value > server.power.busy_watts.value:
        most = server.power.busy_watts.value
        yield ("power", "idle_watts"), f"allowed: at most busy_watts, {most:g}"


def _ports(server: DescribedServer) -> Iterator[Contradiction]:
    for i, port in enumerate(server.ports):
        if port.socket >= server.sockets:
            yield ("ports", i, "socket"), f"{port.socket}; allowed: 0..{server.sockets - 1}"
        for key in ("gbps", "mpps"):
            figure = getattr(port, key)
            if figure is not None and not figure.value:
                yield ("ports", i, key), "0; allowed: more than 0"
    if server.tester == "outside" and not server.ports:
        yield ("tester",), "outside; allowed: with `ports`, by which traffic comes"


def _sources(server: DescribedServer) -> Iterator[Contradiction]:
    for name, source in server.sources.items():
        if source.kind == "fitted" and not source.to:
            yield ("sources", name), "fitted; allowed: with `to`, the points that it was fitted to"
        if source.kind != "fitted" and source.to:
            yield ("sources", name, "to"), f"{source.kind}; allowed: where `kind` is fitted"


def _costs(server: DescribedServer) -> Iterator[Contradiction]:
    for key in ("functions", "traffic", "hosting", "machines"):
        if server.costs is not None and getattr(server, key):
            yield (key,), f"they are taken from `costs`, {server.costs}; allowed: one of both"
    for name, one in server.functions.items():
        if (one.accesses is None) != (one.bytes_per_entry is None):
            yield ("functions", name), "allowed: both of accesses and bytes_per_entry, or neither"
