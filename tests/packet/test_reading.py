# SPDX-License-Identifier: Apache-2.0
"""What the lab does to an engine while a load goes on: nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.engine import reading
from headrace.engine.counters import difference
from headrace.engine.counts import EngineCounts
from headrace.engine.engine import Engine
from headrace.engine.plan_document import Plan
from headrace.host.state import RunState
from headrace.record.identity import Direction
from perf.engine import chain_plan
from support.engine import free_cpus, memory_engine

# Dear packets at a low rate: what a burst of one costs beside its function, up to 1,300 cycles on
# machines that were met, is small beside it, and the lcore stays mostly idle.
CYCLES, PPS, SECONDS = 20_000, 2e4, 0.2


class Looked(Engine):
    """It remembers when it was read, by its own clock."""

    reads: tuple[int, ...] = ()
    start_tsc = 0

    def request(self, cmd: str, **arguments: Any) -> dict[str, Any]:
        answer = super().request(cmd, **arguments)
        self.start_tsc = int(answer.get("start_tsc", self.start_tsc))
        return answer

    def read(self) -> EngineCounts:
        counts = super().read()
        self.reads += (counts.tsc,)
        return counts


@dataclass
class Way:
    direction: Direction = "forward"
    source: str = "gen"
    sink: str = "meas"


def test_nobody_reads_while_packets_are_sent(engine_binary: Path) -> None:
    """One look takes half a millisecond of a poller where no CPU is spare: in trials of 20 ms that
    was the 99th percentile of the latencies."""
    chain = [("delay", "out", {"cycles": CYCLES})]
    cpus = (free_cpus()[0], free_cpus()[-1])
    plan = chain_plan({"frame_bytes": [64]}, chain, cpus, 512) | {"engine": memory_engine()}
    state = RunState()
    try:
        with Looked(engine_binary, Plan.model_validate(plan), state) as engine:
            used = []
            for _ in range(3):
                read = reading.run(engine, (Way(),), PPS, SECONDS, 0.02)
                assert reading.flow(read, Way()).received == PPS * SECONDS
                sent = range(engine.start_tsc, engine.start_tsc + int(SECONDS * engine_hz(read)))
                assert engine.reads and not [at for at in engine.reads if at in sent]
                used.append(chain_use(read))
            # An interruption of less than 0.1 ms is not told from work, and what waited for a
            # longer one finds cold caches: other work on the machine only ever adds to this.
            assert min(used) == pytest.approx(PPS * CYCLES / engine_hz(read), rel=0.3)
    finally:
        state.remove()


def engine_hz(read: reading.Reading) -> float:
    return float(read.after.tsc_hz)


def chain_use(read: reading.Reading) -> float:
    """OPS / REF of the chain while packets were sent, which nobody but the engine saw."""
    counters = difference(read.before, read.after, None, {}, read.sending)
    [chain] = [one for one in counters.replicas if one.segment == "chain"]
    [worker] = [one for one in counters.workers if one.cpu == chain.cpu]
    assert chain.sending_ops_cycles and worker.sending_ref_cycles
    return chain.sending_ops_cycles / worker.sending_ref_cycles
