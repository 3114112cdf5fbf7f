# SPDX-License-Identifier: Apache-2.0
"""The kernel's part: where the packets' time goes by stage, and each core's softirqs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from headrace.analyse.units import percent
from headrace.collect.stack.result import SoftirqCpu, StageLatency
from headrace.collect.stack.show import time_text

from .svg import linear, picture, rect, text, title

MOST = 12  # stages
VECTORS = {"NET_RX": "n1", "NET_TX": "n8", "TIMER": "n6", "RCU": "n3", "SCHED": "n5"}


class StackStage(NamedTuple):
    name: str
    share: float  # of all packets' time
    mean_ns: float
    p99_ns: float


@dataclass(frozen=True)
class Stages:
    """Those that take most of the time, the first of them first."""

    stages: tuple[StackStage, ...]
    kind: Literal["stages"] = "stages"

    def draw(self, width: float) -> str:
        return draw_stages(self.stages, width)


class SoftirqCore(NamedTuple):
    cpu: int
    shares: dict[str, float]  # of the core's time, by vector


@dataclass(frozen=True)
class Softirqs:
    cores: tuple[SoftirqCore, ...]
    kind: Literal["softirqs"] = "softirqs"

    def draw(self, width: float) -> str:
        return draw_softirqs(self.cores, width)


def stages(rows: Sequence[StageLatency]) -> Stages:
    """Over devices and namespaces: all packets, all time, the highest p99."""
    sums: dict[str, tuple[int, int, int]] = {}
    for r in rows:
        count, sum_ns, p99 = sums.get(f"{r.begin} → {r.to}", (0, 0, 0))
        sums[f"{r.begin} → {r.to}"] = (count + r.count, sum_ns + r.sum_ns, max(p99, r.p99_ns))
    total = sum(sum_ns for _, sum_ns, _ in sums.values()) or 1
    found = [
        StackStage(name, sum_ns / total, sum_ns / count, p99)
        for name, (count, sum_ns, p99) in sums.items()
        if count
    ]
    return Stages(tuple(sorted(found, key=lambda s: -s.share)[:MOST]))


def softirqs(cores: Sequence[SoftirqCpu]) -> Softirqs:
    return Softirqs(
        tuple(SoftirqCore(c.cpu, {name: v.share for name, v in c.vectors.items()}) for c in cores)
    )


def draw_stages(found: Sequence[StackStage], width: float) -> str:
    if not found:
        return ""
    small = width < 500
    left, row = (0.0, 38.0) if small else (330.0, 22.0)
    scale = linear(0, found[0].share, 0, width - left - 230)
    body = []
    for i, stage in enumerate(found):
        y = 4 + i * row
        body.append(text(0, y + 13, stage.name, font_size=12))
        if small:
            y += 17
        times = f"mean {time_text(stage.mean_ns)}, p99 {time_text(stage.p99_ns)}"
        shown = f"{percent(stage.share, 2)}, {times}"
        body.append(rect(left, y + 2, scale(stage.share), 14, class_="bar"))
        body.append(text(left + 6 + scale(stage.share), y + 13, shown, font_size=12))
    label = "share of all packets' time by stage"
    return picture(width, 8 + row * len(found), label, *body)


def draw_softirqs(cores: Sequence[SoftirqCore], width: float) -> str:
    """S4 table 3: each core's share of time by vector."""
    if not cores:
        return ""
    body, high, left = [], 24, 60.0
    for i, core in enumerate(cores):
        x, y = left, 4 + i * high
        body.append(text(0, y + 13, f"CPU {core.cpu}", font_size=12))
        for name, class_ in VECTORS.items():
            wide = (width - left - 220) * core.shares.get(name, 0.0)
            tip = title(f"{name} {percent(core.shares.get(name, 0.0))}")
            body.append(rect(x, y + 2, wide, 14, tip, class_=class_))
            x += wide
        most = max(core.shares, key=lambda name: core.shares[name], default=None)
        shown = percent(sum(core.shares.values()))
        shown += f", mostly {most} {percent(core.shares[most])}" if most else ""
        body.append(text(x + 6, y + 13, shown, font_size=12))
    return picture(width, 8 + high * len(cores), "softirq time by CPU", *body)
