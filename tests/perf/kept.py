# SPDX-License-Identifier: Apache-2.0
"""What it costs that an engine gives its rights up: of its lcore's CPU for each packet, where it
polls and where it sleeps (a filter looks at each system call), over an engine that keeps them.

The one that keeps them is the same program: before it a library is loaded that refuses it another
user, as a container may, and loads no filter."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from headrace.host.cpu_time import shield
from perf.stats import Sample
from support.engine import Engine, memory_engine

SLOW_PPS = 20_000
WARM_S = 0.1  # a trial begins 40 ms after it is asked for
PAIRS = 8  # of turns, for each start
_KEEPS = r"""
#include <errno.h>
#include <sys/types.h>
int setresgid(gid_t a, gid_t b, gid_t c) { (void)a, (void)b, (void)c; errno = EPERM; return -1; }
int seccomp_load(void *filter) { (void)filter; return 0; }
"""


def plan(cpu: int, mode: str) -> dict[str, Any]:
    """Source, l2fwd and sink on one lcore, with a ring, which it may wait on."""
    return {
        "version": 1,
        "engine": memory_engine(wait={"mode": mode}),
        "links": {
            "gen": {"type": "source", "params": {"frame_bytes": [64], "flows": 64}},
            "wire": {"type": "ring", "params": {}},
            "meas": {"type": "sink", "params": {}},
        },
        "nfs": {"l2fwd": {"type": "l2fwd", "params": {}}},
        "segments": [
            {"name": "in", "cpus": [cpu], "inputs": [{"link": "gen", "to": "link:wire"}]},
            {"name": "dut", "cpus": [cpu], "inputs": [{"link": "wire", "to": "l2fwd"}],
             "nodes": {"l2fwd": {"forward": {"out": "link:meas"}}}},
        ],
    }  # fmt: skip


def seconds_of(pid: int) -> float:
    """That the lcore had its CPU."""
    [worker] = [
        task for task in Path(f"/proc/{pid}/task").iterdir()
        if "worker" in (task / "comm").read_text()
    ]  # fmt: skip
    return int((worker / "schedstat").read_text().split()[0]) / 1e9


@contextlib.contextmanager
def _keeping(library: Path | None) -> Iterator[None]:
    """An engine that is started meanwhile keeps its rights, if there is a library."""
    if library is not None:
        os.environ["LD_PRELOAD"] = str(library)
    try:
        yield
    finally:
        os.environ.pop("LD_PRELOAD", None)


def _check(pid: int, keeps: bool) -> None:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    if not keeps and status["Seccomp"] == "0":
        raise RuntimeError("the engine is built without libseccomp, or this kernel has no filters")
    assert not keeps or status["Seccomp"] == "0", f"Seccomp {status['Seccomp']}"
    assert (status["Uid"].split()[1] == "0") == (keeps and not os.geteuid()), status["Uid"]


class _Held:
    """An engine that stands still (SIGSTOP) but in its turns, so that two can have one CPU."""

    def __init__(self, engine: Engine, rate: float) -> None:
        self._engine, self._rate = engine, rate
        shield(engine.process.pid)
        self._signal(signal.SIGSTOP)

    def _signal(self, number: signal.Signals) -> None:
        self._engine.process.send_signal(number)

    def release(self) -> None:
        self._signal(signal.SIGCONT)

    def _mark(self) -> tuple[float, int]:
        """CPU time of the lcore, in the middle of the reading, and packets."""
        before = seconds_of(self._engine.process.pid)
        [replica] = self._engine.call("read")["segments"]["dut"]
        return (before + seconds_of(self._engine.process.pid)) / 2, int(replica["in"])

    def turn(self, seconds: float) -> float:
        """Nanoseconds of the lcore's CPU for a packet."""
        self._signal(signal.SIGCONT)
        source = {"rate_pps": self._rate, "duration_s": seconds + 1}
        self._engine.call("start", sources={"gen": source})
        time.sleep(WARM_S)
        began, before = self._mark()
        time.sleep(seconds)
        ended, after = self._mark()
        self._engine.call("stop")
        time.sleep(0.02)  # what is under way
        self._signal(signal.SIGSTOP)
        return (ended - began) * 1e9 / (after - before)


def _turns(
    binary: Path, folder: Path, cpu: int, seconds: float, mode: str, library: Path
) -> tuple[list[float], list[float]]:
    """What packets cost two engines in turns on one CPU, one that gave its rights up and one that
    keeps them. Who is first changes, so that a machine that becomes slower tells nothing."""
    rate = 0 if mode == "poll" else SLOW_PPS
    with contextlib.ExitStack() as stack:
        held: list[_Held] = []
        for keeps in (False, True):
            with _keeping(library if keeps else None):
                engine = stack.enter_context(Engine(binary, plan(cpu, mode), folder))
            _check(engine.process.pid, keeps)
            held.append(_Held(engine, rate))
            stack.callback(held[-1].release)  # a stopped one does not end
        costs: tuple[list[float], list[float]] = ([], [])
        for pair in range(PAIRS):
            for which in (0, 1) if pair % 2 else (1, 0):
                costs[which].append(held[which].turn(seconds))
    return costs


def given_up(
    binary: Path, folder: Path, cpu: int, starts: int, seconds: float
) -> Iterator[tuple[str, Sample, Sample]]:
    """By mode, for each start of two engines: what a packet costs the one that gave its rights up,
    and that over the other one, the median of its pairs of turns. Starts differ by more than turns
    do (memory lies elsewhere), so that an interval is to be drawn over them."""
    library = folder / "keeps.so"
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
    subprocess.run(command, input=_KEEPS, text=True, check=True)
    for mode in ("poll", "adaptive"):
        cost, over = [], []
        for _ in range(starts):
            given, kept = _turns(binary, folder, cpu, seconds, mode, library)
            cost.append(median(given))
            over.append(median(one / other for one, other in zip(given, kept, strict=True)))
        yield mode, Sample(tuple(cost)), Sample(tuple(over))
