# SPDX-License-Identifier: Apache-2.0
"""Network functions alone and stacked: headrace-bench-nf times process() and nothing else."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# By function: the counter that a packet of an unknown flow adds to. qos has no flows.
UNKNOWN = {
    "nat": "new-sessions",
    "firewall": "new-flows",
    "lb": "new-flows",
    "monitor": "new-flows",
    "dpi": "new-flows",
}
FLOWS = (1_000, 100_000, 1_000_000)
# One outside address has some 60,000 ports towards one destination.
POOL = [f"203.0.113.{i}" for i in range(1, 33)]


@dataclass(frozen=True)
class Function:
    """What is timed, with parameters for a number of flows, and its goal at the fewest of them."""

    type: str
    goal: float | None = None

    def params(self, flows: int) -> dict[str, Any]:
        room = flows + flows // 4
        every: dict[str, dict[str, Any]] = {
            "nat": {"pool": POOL, "sessions": room},
            "firewall": {"rules": [{"action": "permit", "proto": "udp"}], "flows": room},
            # Police and nothing else: a rate that nothing exceeds.
            "qos": {
                "classes": [
                    {
                        "dscp": [0],
                        "meter": "srtcm",
                        "cir_bps": 10**12,
                        "cbs_bytes": 10**9,
                        "pbs_bytes": 10**9,
                    }
                ]
            },
            "lb": {
                "vips": [
                    {
                        "address": "10.0.0.1",
                        "backends": [{"address": f"10.1.0.{i}"} for i in range(1, 65)],
                    }
                ],
                "flows": room,
            },
            "monitor": {"flows": room},
            "dpi": {
                "rules": ['alert udp any any -> any any (msg:"x"; content:"headrace"; sid:1;)'],
                "flows": room,
            },
        }
        return every[self.type]


ALONE = (
    Function("nat", 60),
    Function("firewall", 50),
    Function("qos", 30),
    Function("lb", 40),
    Function("monitor", 40),
    Function("dpi"),
)
STACK = tuple(Function(name) for name in ("nat", "firewall", "qos", "dpi"))


class BenchError(Exception):
    """headrace-bench-nf refused, or a function did not pass what it was given."""


@dataclass(frozen=True)
class Cycles:
    """TSC cycles per packet: of reading its headers, once, and of the functions."""

    headers: float
    functions: float


def cycles(binary: Path, functions: tuple[Function, ...], flows: int) -> Cycles:
    """The functions in turn, all flows known to them; medians of rounds."""
    arguments = [str(binary), "--flows", str(flows), "--memory-mb", "512"]
    for function in functions:
        arguments += ["--nf", function.type, "--params", json.dumps(function.params(flows))]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(done.stderr.strip())
    result = json.loads(done.stdout)
    for stage in result["stages"]:
        dropped = sum(n for verdict, n in stage["verdicts"].items() if verdict != "0")
        if dropped:
            raise BenchError(f"{stage['nf']} at {flows} flows: {dropped} packets did not pass")
        new = stage["counters"].get(UNKNOWN.get(stage["nf"], ""), 0)
        if new:
            raise BenchError(
                f"{stage['nf']} at {flows} flows: {new} packets of flows it did not know"
            )
    return Cycles(float(result["headers"]), float(result["cycles_per_packet"]["median"]))
