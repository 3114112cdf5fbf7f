# SPDX-License-Identifier: Apache-2.0
"""One polling core behind a port, as PacketMill's tables have it: delays over the load, rates over
the clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from headrace.layout.events import PolledLcores, Queue, Traversal, follow
from headrace.layout.gaps import Gap, quantile
from headrace.layout.predicted_latency import QueueStage, straight
from headrace.model.fitting import Values
from headrace.record.figures import LatencyNs

QUANTILES = {"p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95, "p99": 0.99}
_PACKETS, _IDLE_NS = 60_000, 20.0
_L1_BYTES = 20
_FULL = 0.995  # of the line: the tester's own ring is full


@dataclass(frozen=True)
class PolledDelays:
    """ns: `base` is everybody's, `waits` are in the core's ring, in order of their length; `gaps`
    are the core's pauses, which it catches up with in `spare` of its time."""

    offered_mpps: float
    base: float
    waits: tuple[float, ...]
    gaps: tuple[Gap, ...]
    spare: float

    def at(self, share: float) -> float:
        """What so many packets have at most."""
        return self.base + quantile(self.waits, self.gaps, self.spare, share)

    def latency(self) -> LatencyNs:
        """A pause delays those that come within it by half of it in the mean, and as many again by
        as much as piled up."""
        paused = sum(gap.per_cycle * gap.cycles**2 / 2 / self.spare for gap in self.gaps)
        longest = max((gap.cycles for gap in self.gaps), default=0.0)
        return LatencyNs(
            mean=self.base + float(np.mean(self.waits)) + paused,
            min=self.base + self.waits[0], p50=self.at(0.5), p90=self.at(0.9), p99=self.at(0.99),
            p999=self.at(0.999), max=self.base + self.waits[-1] + longest,
        )  # fmt: skip


def polled(x: float, values: Values, known: Values) -> PolledDelays:
    """Delays: `base` (us); in the core's ring, as packets come in bursts of `burst`; and of the
    core's pauses, `pause_us` long, `pause_per_ms` (layout/gaps.py). `x`: the load, in the
    generator's units of `mpps_per_x`; 0 of them is as fast as its line. `known` beside it:
    `saturation_mpps`, `ring` and `tester_ring` (packets), `line_gbps`, `frame_bytes`."""
    line = known["line_gbps"] * 1e3 / (8 * (known["frame_bytes"] + _L1_BYTES))
    wanted = x * known["mpps_per_x"] or line
    offered = min(wanted, line)
    waits = _waits_ns(offered, line, known["saturation_mpps"], int(known["ring"]), values["burst"])
    base = values["base"] * 1e3
    if wanted >= _FULL * line:
        base += known["tester_ring"] / line * 1e3
    spare = 1 - offered / known["saturation_mpps"]
    gaps: tuple[Gap, ...] = ()
    if spare > 0:
        # A ring that is full holds no more: that long a pause can be waited for.
        longest = known["ring"] / known["saturation_mpps"] * 1e3
        length = min(max(0.0, values["pause_us"]) * 1e3, longest)
        gaps = (Gap(max(0.0, values["pause_per_ms"]) * 1e-6, length),)
    return PolledDelays(offered, base, waits, gaps, max(spare, 1e-3))


@lru_cache(maxsize=512)
def _waits_ns(
    offered: float, line: float, saturation: float, ring: int, burst: float
) -> tuple[float, ...]:
    """Waits in order of their length; rates in Mpps. An overload is followed until the ring is
    full."""
    each = 1e3 / saturation
    over = max(1.0, offered / saturation)
    packets = _PACKETS if over == 1 else int(_PACKETS + ring * over / max(over - 1, 0.01))
    outside = Queue(QueueStage(0, -1, 0.0, straight(0.0, 0.0), _IDLE_NS))
    core = Queue(QueueStage(1, 0, 0.0, straight(0.0, each), _IDLE_NS), room=ring)
    sink = Queue(QueueStage(2, 1, 0.0, straight(0.0, 0.0), _IDLE_NS), room=1 << 16)
    way = Traversal(
        ((outside,), (core,), (sink,)), offered / 1e3, PolledLcores(outside=True),
        burst=burst, spacing=1e3 / line,
    )  # fmt: skip
    return tuple(np.sort(follow(way, packets).steady))


def clocked_mpps(row: Mapping[str, str], values: Values) -> float:
    """A packet's cycles scale with the clock, its waiting for memory and the NIC does not. The
    clock is what the core counted in a tenth of a second, where the table has that."""
    counted = row.get("cycles-avg-C0")
    ghz = float(counted) / 1e8 if counted else float(row["x"]) / 1e3
    return 1e3 / (values["cycles"] / ghz + values["wait_ns"])
