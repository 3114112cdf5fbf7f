# SPDX-License-Identifier: Apache-2.0
"""Delays of a load, by slices of 10 ms: those in which nothing kept an lcore from working are a
layout's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.engine.sliced import SlicesReply

# After an lcore was away, packets wait in queues for some times as long.
_AFTER_S = 0.05
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
                if one["pauses"] > 0 or one["kept_us"] > _KEPT_US:
                    yield one["end"] - one["ref"], one["end"]
