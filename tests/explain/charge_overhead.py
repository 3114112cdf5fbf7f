# SPDX-License-Identifier: Apache-2.0
"""What charging CPU time to network namespaces costs.

`PYTHONPATH=tests/trace python tests/explain/charge_overhead.py [ROUNDS]`, root, half a minute.
iperf3's TCP and small UDP from one namespace over a bridge to another, as fast as they go, with
headrace-cores and without it in turn: the ratio of each round's two rates; and with another build
of headrace-cores where HEADRACE_CORES_BEFORE names one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles

import overhead

from headrace.host.programs import find_beside_tracer


@contextmanager
def running(program: Path | str | None) -> Iterator[None]:
    if program is None:
        yield
        return
    process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    process.stdout.readline()
    try:
        yield
    finally:
        process.communicate()


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    ways: dict[str, Path | str] = {"headrace-cores": find_beside_tracer("headrace-cores")}
    if before := os.environ.get("HEADRACE_CORES_BEFORE"):
        ways["before"] = before
    overhead.network()
    try:
        for kind in ("tcp", "udp"):
            ratios: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(rounds):
                without = overhead.traffic(kind)
                for way, program in ways.items():
                    with running(program):
                        ratios[way].append(overhead.traffic(kind) / without)
            for way, of_way in ratios.items():
                low, _, high = quantiles(of_way, n=4)
                print(
                    f"{kind} {way:16} rate with / without: median {median(of_way):.3f}, "
                    f"quartiles {low:.3f} to {high:.3f}, {rounds} rounds",
                    flush=True,
                )
    finally:
        for namespace in (*overhead.PAIR, overhead.SWITCH):
            overhead.ip("netns", "del", namespace, check=False)


if __name__ == "__main__":
    main()
