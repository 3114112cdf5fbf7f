# SPDX-License-Identifier: Apache-2.0
"""`qos` shapes to the configured rates, within 2 %, in the engine and on the real clock.

What leaves is known exactly: the bucket, which is full at first, and the rate times the time
between first packet and last. The period of the traffic classes is longer than all trials: what a
class does not send in one is lost to it. So is what passes while rte_sched's clock, of 24 bits of
cycles, is not read: trials with such a pause do not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from support.engine import Engine, memory_engine

RATE_BPS, DEPTH_S = 20_000_000, 0.1
DEPTH = int(RATE_BPS * DEPTH_S / 8)
OFFERED_PPS, SECONDS, ATTEMPTS = 20_000, 1.5, 10
SIZES = [64, 570, 1518, 64, 570]


def plan(cpu: int) -> dict[str, Any]:
    bucket = {"burst_bytes": DEPTH, "period_ms": 60_000}
    shaper = {"rate_bps": RATE_BPS, "subports": [bucket], "pipe_profiles": [bucket]}
    return {
        "version": 1,
        "engine": memory_engine(),
        "links": {
            "gen": {"type": "source", "params": {"frame_bytes": SIZES, "flows": 50}},
            "meas": {"type": "sink"},
        },
        "nfs": {"qos": {"type": "qos", "params": {"classes": [], "shaper": shaper}}},
        "segments": [
            {
                "name": "chain",
                "cpus": [cpu],
                "inputs": [{"link": "gen", "to": "qos"}],
                "nodes": {"qos": {"forward": {"out": "link:meas"}}},
            }
        ],
    }


def undisturbed(engine: Engine) -> dict[str, Any]:
    behind_max_ns = 0.8 * 2**24 / engine.call("info")["tsc_hz"] * 1e9
    for _ in range(ATTEMPTS):
        time.sleep(2 * DEPTH_S)  # the bucket is full again
        engine.call("start", sources={"gen": {"rate_pps": OFFERED_PPS, "duration_s": SECONDS}})
        engine.wait_for(
            lambda: engine.read()["links"]["gen"]["state"] == "done", "the trial's end", seconds=120
        )
        reading = engine.settle(1)
        gen = reading["links"]["gen"]
        if not gen["unsent"] and gen["behind_max_ns"] < behind_max_ns:
            return reading
    pytest.skip(f"the machine was too busy: {ATTEMPTS} trials, all disturbed, the last: {gen}")


def test_shaped_rate(start_engine: Callable[..., Engine], cpus: list[int]) -> None:
    with start_engine(plan(cpus[-1])) as engine:
        reading = undisturbed(engine)
    meas, qos = reading["links"]["meas"], reading["segments"]["chain"][0]["nfs"]["qos"]
    expected = DEPTH + RATE_BPS / 8 * meas["duration_ns"] / 1e9
    assert meas["bytes"] == pytest.approx(expected, rel=0.02), (
        f"{meas['bytes']} bytes, {meas['bytes'] / expected - 1:+.2%} of what was configured"
    )
    assert meas["reordered"] == 0
    # What was queued when the source ended has left by itself.
    assert qos["held"] == 0
    assert qos["dropped"]["queue-full"] > 0
    assert qos["in"] == sum(qos["out"].values()) + sum(qos["dropped"].values())
