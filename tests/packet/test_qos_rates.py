# SPDX-License-Identifier: Apache-2.0
"""`qos` passes what its meters promise, within 2 %, by the sink's own count of what came.

What a token bucket lets through while more is offered is known exactly: its depth, and its rate
times the time between the first packet and the last (RFC 2697, 2698, 4115). The source is open loop
and says how long it sent; a deep bucket rides out a busy machine's pauses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.engine import Engine, memory_engine

MBPS = 1_000_000
CIR, PIR = 20 * MBPS, 50 * MBPS
RATE_PPS, SECONDS, ATTEMPTS, BEHIND_MAX_NS = 20_000, 1.5, 6, 25e6
SIZES = [64, 570, 1518, 64, 570]  # 557 bytes on average: 89 Mbit/s are offered
IPV6 = {
    "src_ip": "2001:db8::1", "dst_ip": "2001:db8:1::1", "frame_bytes": [84, 570, 1518, 84, 570]
}  # fmt: skip
DEPTH_S = 0.5
CBS, PBS = int(CIR * DEPTH_S / 8), int(PIR * DEPTH_S / 8)
REFILL_S = 1.2 * (CBS + PBS) * 8 / CIR  # srTCM: one rate fills both buckets


@dataclass(frozen=True)
class Case:
    """A meter, and the rate and depth of what passes as green and as yellow."""

    meter: str
    params: dict[str, Any]
    passes: tuple[int, int]  # bit/s and bytes
    excess_bps: int = 0  # RFC 4115: the excess bucket is full, and gains nothing, until C is empty

    def __str__(self) -> str:
        dropped = ", yellow dropped" if self.params.get("drop_yellow") else ""
        return self.meter + dropped


CASES = [
    Case("srtcm", {"pbs_bytes": PBS}, (CIR, CBS + PBS)),
    Case("srtcm", {"pbs_bytes": PBS, "drop_yellow": True}, (CIR, CBS)),
    Case("trtcm", {"pir_bps": PIR, "pbs_bytes": PBS}, (PIR, PBS)),
    Case("trtcm", {"pir_bps": PIR, "pbs_bytes": PBS, "drop_yellow": True}, (CIR, CBS)),
    Case("trtcm-4115", {"pir_bps": PIR - CIR, "pbs_bytes": PBS}, (PIR, CBS + PBS), PIR - CIR),
    Case("trtcm-4115", {"pir_bps": PIR, "pbs_bytes": PBS, "drop_yellow": True}, (CIR, CBS)),
]


def plan(cpu: int, case: Case, source: dict[str, Any]) -> dict[str, Any]:
    policed = {
        "dscp": [0], "meter": case.meter, "cir_bps": CIR, "cbs_bytes": CBS, **case.params
    }  # fmt: skip
    return {
        "version": 1,
        "engine": memory_engine(),
        "links": {
            "gen": {"type": "source", "params": {"frame_bytes": SIZES, "flows": 50} | source},
            "meas": {"type": "sink"},
        },
        "nfs": {"qos": {"type": "qos", "params": {"classes": [policed]}}},
        "segments": [
            {
                "name": "chain",
                "cpus": [cpu],
                "inputs": [{"link": "gen", "to": "qos"}],
                "nodes": {"qos": {"forward": {"out": "link:meas"}}},
            }
        ],
    }


@pytest.fixture
def shielded() -> Iterator[None]:
    """The largest share of the CPUs for this session, where we may (sched(7), autogroup)."""
    file = Path("/proc/self/autogroup")
    try:
        before = file.read_text().split()[-1]
        file.write_text("-20")
    except (OSError, IndexError):  # no such file, not ours, or (empty) no group of the session's
        yield
        return
    yield
    file.write_text(before)


def undisturbed(engine: Engine) -> dict[str, Any]:
    """A trial in which the source kept its schedule: what is due in a pause comes at once after
    it, and a bucket that is full by then has forgotten what it was owed."""
    for attempt in range(ATTEMPTS):
        time.sleep(REFILL_S if attempt else 0)
        engine.call("start", sources={"gen": {"rate_pps": RATE_PPS, "duration_s": SECONDS}})
        engine.wait_for(
            lambda: engine.read()["links"]["gen"]["state"] == "done", "the trial's end", seconds=120
        )
        reading = engine.settle(1)
        gen = reading["links"]["gen"]
        if not gen["unsent"] and gen["behind_max_ns"] < BEHIND_MAX_NS:
            return reading
    pytest.skip(f"the machine was too busy: {ATTEMPTS} trials, all disturbed, the last: {gen}")


@pytest.mark.usefixtures("shielded")
@pytest.mark.parametrize(
    ("case", "source"),
    [(case, {}) for case in CASES] + [(CASES[0], IPV6)],
    ids=[*map(str, CASES), f"{CASES[0]}, IPv6"],
)
def test_policed_rate(
    case: Case, source: dict[str, Any], start_engine: Callable[..., Engine], cpus: list[int]
) -> None:
    with start_engine(plan(cpus[-1], case, source)) as engine:
        reading = undisturbed(engine)
    gen, meas = reading["links"]["gen"], reading["links"]["meas"]
    bps, depth = case.passes
    seconds = gen["duration_ns"] / 1e9
    until_empty = CBS / (gen["sent_bytes"] / seconds - CIR / 8)
    expected = depth + bps / 8 * seconds - case.excess_bps / 8 * until_empty
    assert meas["bytes"] == pytest.approx(expected, rel=0.02), (
        f"{meas['bytes']} bytes, {meas['bytes'] / expected - 1:+.2%} of what was configured"
    )
    qos = reading["segments"]["chain"][0]["nfs"]["qos"]
    assert qos["in"] == sum(qos["out"].values()) + sum(qos["dropped"].values())
