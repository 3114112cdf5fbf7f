# SPDX-License-Identifier: Apache-2.0
"""What it costs that an engine gives its rights up: of its lcore's CPU for each packet, where it
polls and where it sleeps (a filter looks at each system call), over an engine that keeps them.

The one that keeps them is the same program: before it a library is loaded that refuses it another
user, as a container may, and loads no filter."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from perf import engine as bench
from perf.boost import boost
from perf.hostile import seconds_of
from perf.stats import Sample, interleave, ratio
from support.engine import Engine, memory_engine

SLOW_PPS = 20_000
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


def _cost(
    binary: Path, folder: Path, cpu: int, seconds: float, mode: str, library: Path | None
) -> float:
    """Nanoseconds of the lcore's CPU for a packet."""
    rate = 0 if mode == "poll" else SLOW_PPS
    with _keeping(library), Engine(binary, plan(cpu, mode), folder) as engine:
        boost(engine.process.pid)
        _check(engine.process.pid, library is not None)
        source = {"rate_pps": rate, "duration_s": seconds + 2 * bench.WARM_S}
        engine.call("start", sources={"gen": source})
        time.sleep(bench.WARM_S)
        before, began = engine.read(), seconds_of(engine.process.pid)
        time.sleep(seconds)
        after, ended = engine.read(), seconds_of(engine.process.pid)
        engine.call("stop")
        time.sleep(0.05)
    return (ended - began) * 1e9 / bench.Load(before, after).packets("dut")


def given_up(
    binary: Path, folder: Path, cpu: int, runs: int, seconds: float
) -> Iterator[tuple[str, Sample, Sample]]:
    """By mode: what a packet costs an engine that gave its rights up, and that over one that did
    not."""
    library = folder / "keeps.so"
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
    subprocess.run(command, input=_KEEPS, text=True, check=True)
    for mode in ("poll", "adaptive"):
        cost = partial(_cost, binary, folder, cpu, seconds, mode)
        samples = interleave(runs, {"not": partial(cost, None), "kept": partial(cost, library)})
        yield mode, samples["not"], ratio(samples["not"], samples["kept"])
