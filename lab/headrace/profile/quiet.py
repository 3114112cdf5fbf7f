# SPDX-License-Identifier: Apache-2.0
"""Delays of a load, by slices of 10 ms: those in which nothing kept an lcore from working are a
layout's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headrace.engine.sliced import SlicesReply
from headrace.record.counters import ReplicaReading

Replicas = tuple[ReplicaReading, ...]

# After an lcore was away, packets wait in queues for some times as long.
_AFTER_S = 0.05
_SLICES_LEAST = 5  # fewer are no sample
_KEPT_US = 100.0  # what a thread's own CPU time and the clock differ by without any other's doing


@dataclass(frozen=True)
class DelaySlice:
    """`quiet`: no lcore was kept from working in it, or shortly before."""

    after_s: float  # since the load's first packet
    packets: int
    p50_s: float
    p99_s: float
    quiet: bool


def delay_slices(reply: SlicesReply) -> list[DelaySlice]:
    """Asked for when a load is over."""
    hz = float(reply.tsc_hz)
    kept = list(_kept(reply))
    slices = []
    for sink in reply.delays.values():
        for queue in sink.queues:
            for row in queue:
                one = dict(zip(sink.columns, row, strict=True))
                since, until = one["begin"] - _AFTER_S * hz, one["end"]
                quiet = not any(begin < until and end > since for begin, end in kept)
                after_s = (one["begin"] - queue[0][0]) / hz
                p50_s, p99_s = one["p50_ns"] / 1e9, one["p99_ns"] / 1e9
                slices.append(DelaySlice(after_s, one["packets"], p50_s, p99_s, quiet))
    return slices


def _kept(reply: SlicesReply) -> Iterator[tuple[int, int]]:
    """When lcores were kept from working, by TSC."""
    for replicas in reply.segments.values():
        for replica in replicas:
            for row in replica.rows:
                one = dict(zip(reply.columns, row, strict=True))
                if _taken(one):
                    yield one["end"] - one["ref"], one["end"]


def settled(replicas: Sequence[ReplicaReading], reply: SlicesReply, after_s: float) -> Replicas:
    """The cycles of a load's trial, and the bursts, as they were once it had gone on for so long
    and where nothing took the replica's lcore: caches are cold when a load begins. Asked for when
    it is over; a replica with too few such slices stays as it is."""
    begins = [queue[0] for sink in reply.delays.values() for queue in sink.queues if queue]
    if not begins:
        return tuple(replicas)
    since = min(row[0] for row in begins) + after_s * reply.tsc_hz
    return tuple(_settled(one, reply, since) for one in replicas)


def _settled(replica: ReplicaReading, reply: SlicesReply, since: float) -> ReplicaReading:
    rows = reply.segments[replica.segment][replica.index].rows
    slices = [dict(zip(reply.columns, row, strict=True)) for row in rows]
    good = [one for one in slices if one["end"] - one["ref"] > since and not _taken(one)]
    packets, polls, ops = (sum(one[key] for one in good) for key in ("packets", "found", "ops"))
    if len(good) < _SLICES_LEAST or not packets or not replica.packets_in:
        return replica
    less = ops / packets / (replica.ops_cycles / replica.packets_in)
    polls = round(replica.packets_in * polls / packets)
    at_load = {
        "idle_polls": max(0, replica.polls - polls),
        "polls": max(replica.polls, polls),
    }
    return replica.costing(less).model_copy(update=at_load)


def _taken(one: dict[str, int]) -> bool:
    """Something else than the engine had the lcore in this slice."""
    return one["pauses"] > 0 or one["kept_us"] > _KEPT_US
