# SPDX-License-Identifier: Apache-2.0
"""The kernel's part: where the packets' time goes by stage, and each core's softirqs."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.analyse.units import percent
from headrace.collect.stack.result import SoftirqCpu, StageLatency
from headrace.collect.stack.show import time_text

from .bar_rows import Bar, Piece
from .bars import Bars, plain

MOST = 12  # stages
VECTORS = {"NET_RX": "n1", "NET_TX": "n8", "TIMER": "n6", "RCU": "n3", "SCHED": "n5"}
REST = "n7"  # of the other vectors together


def stages(rows: Sequence[StageLatency]) -> Bars:
    """Over devices and namespaces: all packets, all time, the highest p99. Those that take most of
    the time, the first of them first."""
    sums: dict[str, tuple[int, int, int]] = {}
    for r in rows:
        count, sum_ns, p99 = sums.get(f"{r.begin} → {r.to}", (0, 0, 0))
        sums[f"{r.begin} → {r.to}"] = (count + r.count, sum_ns + r.sum_ns, max(p99, r.p99_ns))
    total = sum(sum_ns for _, sum_ns, _ in sums.values()) or 1
    most = sorted(sums.items(), key=lambda item: -item[1][1])[:MOST]
    bars = [
        Bar(
            name,
            (Piece(name, sum_ns / total),),
            percent(sum_ns / total, 2),
            f"mean {time_text(sum_ns / count)}, p99 {time_text(p99)}",
        )
        for name, (count, sum_ns, p99) in most
        if count
    ]
    return plain(bars, "% of all packets' time", "Share of all packets' time by stage", 0.01)


def softirqs(cores: Sequence[SoftirqCpu]) -> Bars:
    """Xu et al. 2022, table 3: each core's share of time by vector."""
    bars = [_core(c.cpu, {name: v.share for name, v in c.vectors.items()}) for c in cores]
    return plain(bars, "% of the CPU's time", "Softirq time by CPU", 0.01)


def _core(cpu: int, shares: dict[str, float]) -> Bar:
    pieces = [Piece(name, shares[name], fill) for name, fill in VECTORS.items() if name in shares]
    rest = sum(share for name, share in shares.items() if name not in VECTORS)
    if rest:
        pieces.append(Piece("others", rest, REST))
    most = max(shares, key=lambda name: shares[name], default=None)
    note = f"mostly {most} {percent(shares[most])}" if most else ""
    return Bar(f"CPU {cpu}", tuple(pieces), percent(sum(shares.values())), note)
