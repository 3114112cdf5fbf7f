# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from pathlib import Path as File
from typing import Any

import pytest

from headrace.engine.counts import EngineCounts, RunQueueCounts
from headrace.engine.counts_testdata import counts
from headrace.engine.plan_compiler import Path
from headrace.ground.hosted.anatomy import anatomy
from headrace.ground.hosted.anatomy_ports import IN_MACHINES, IN_SWITCH
from headrace.ground.hosted.parts import Face, Vnf
from headrace.ground.hosted.run_queue import WORKER, mean_wait_ns, run_queue
from headrace.record.segments import Anatomy
from headrace.spec.vm import ApplianceVm

Json = dict[str, Any]
WAY = Path("forward")
ONE = Vnf("vnf1.1", (Face("vf", 1, 1, "s"),), ("x",), (1,), None)
RECEIVED, MEAN, FLOOR = 100, 90_000.0, 10_000.0


def times(count: int, mean_ns: float) -> Json:
    return {"count": count, "sum_ns": round(count * mean_ns)}


def read(links: Json, waited_ns: int = 0, slices: int = 0, tsc: int = 0) -> EngineCounts:
    queue = {"waited_ns": waited_ns, "slices": slices}
    return counts({
        "tsc": tsc, "tsc_hz": 1_000_000_000,
        "links": {WAY.sink: {"type": "sink", "received": RECEIVED}, **links},
        "vnfs": {"vnf1.1": {"run_queue": queue}},
    })  # fmt: skip


def of(before: EngineCounts, after: EngineCounts, vnf: Vnf = ONE) -> Anatomy:
    taken = anatomy(before, after, [vnf], [WAY], MEAN, FLOOR)
    assert taken is not None
    parts = (taken.generator_ns, taken.switch_ns, taken.queue_ns, taken.scheduler_ns, taken.vnf_ns)
    assert sum(parts) == pytest.approx(MEAN) and min(parts) >= 0
    assert taken.of_which_back_ns <= taken.switch_ns
    return taken


def machine(stay_ns: float, out_ns: float, in_ns: float) -> Json:
    count = RECEIVED
    return {
        "vnf1.1:vf": {"type": "port", "stay": times(count, stay_ns)},
        "vf1": {"type": "port", "age_out": times(count, out_ns), "age_in": times(count, in_ns)},
    }


def test_a_machines_queue_is_what_was_outside_and_not_inside() -> None:
    taken = of(read({}), read(machine(5_000, 20_000, 65_000), tsc=10**9))
    assert (taken.vnf_ns, taken.queue_ns, taken.scheduler_ns) == (5_000, 40_000, 0)
    assert (taken.switch_ns, taken.undivided) == (MEAN - FLOOR - 45_000, IN_MACHINES)


def test_what_came_before_the_trial_is_not_counted() -> None:
    was: Json = {
        "vnf1.1:vf": {"stay": times(50, 1e9)},
        "vf1": {"age_out": times(50, 1e9), "age_in": times(50, 3e9)},
    }
    now = machine(5_000, 20_000, 65_000)
    for link, kinds in was.items():
        for kind, one in kinds.items():
            now[link][kind] = {key: now[link][kind][key] + one[key] for key in one}
        was[link] = {"type": "port", **kinds}
    assert of(read(was), read(now, tsc=10**9)).queue_ns == pytest.approx(40_000)


def test_the_schedulers_part_is_of_the_queue() -> None:
    # Ten waits of 10 ms in a second: a tenth of the packets meets one, and waits for half of it.
    after = read(machine(5_000, 20_000, 65_000), 100_000_000, 10, tsc=10**9)
    assert mean_wait_ns(100e6, 10, 1e9) == pytest.approx(500_000)
    taken = of(read({}), after)
    assert (taken.scheduler_ns, taken.queue_ns) == (40_000, 0)  # no more than was outside
    few = read(machine(5_000, 20_000, 65_000), 10_000_000, 10, tsc=10**9)
    assert of(read({}), few).scheduler_ns == pytest.approx(5_000)


def test_behind_a_bridge_queues_are_the_switchs() -> None:
    taken = of(
        read({}), read({"vnf1.1:vf": {"type": "port", "stay": times(RECEIVED, 7_000)}}, tsc=10**9)
    )
    assert (taken.vnf_ns, taken.queue_ns, taken.undivided) == (7_000, 0, IN_SWITCH)
    assert taken.switch_ns == MEAN - FLOOR - 7_000


def test_an_image_is_a_vnf_as_a_whole() -> None:
    image = replace(ONE, appliance=ApplianceVm(image="disk"))
    links = machine(0, 20_000, 65_000)
    del links["vnf1.1:vf"]
    taken = of(read({}), read(links, tsc=10**9), image)
    assert (taken.vnf_ns, taken.queue_ns) == (45_000, 0)


def stamped(wait_ns: float, off_cpu_ns: float, stay_ns: float, back_ns: float, n: int) -> Json:
    return {
        "vnf1.1:vf": {
            "type": "shm", "wait": times(n, wait_ns), "off_cpu": times(n, off_cpu_ns),
            "stay": times(n, stay_ns),
        },
        "vf1": {"type": "shm", "wait": times(n, back_ns)},
    }  # fmt: skip


def test_a_floor_that_is_nearly_the_mean_leaves_the_others_their_own() -> None:
    taken = anatomy(
        read({}), read(stamped(20_000, 5_000, 10_000, 8_000, RECEIVED)), [ONE], [WAY], MEAN, 85_000
    )
    assert taken is not None
    assert (taken.queue_ns, taken.scheduler_ns, taken.vnf_ns) == (15_000, 5_000, 10_000)
    assert (taken.generator_ns, taken.switch_ns) == (MEAN - 38_000, 8_000)
    assert taken.of_which_back_ns == 8_000 and taken.over_ns == 0


def test_what_was_lost_behind_a_function_does_not_make_more_of_the_mean() -> None:
    taken = of(read({}), read(stamped(40_000, 10_000, 10_000, 10_000, 2 * RECEIVED)))
    assert taken.over_ns == pytest.approx(120_000 - MEAN)
    assert (taken.generator_ns, taken.queue_ns) == pytest.approx((0, 45_000))


def test_no_times_no_anatomy() -> None:
    empty = read({"vf1": {"type": "port"}}, tsc=10**9)
    assert anatomy(empty, empty, [ONE], [WAY], MEAN, FLOOR) is None


def test_run_queue_is_of_the_workers(tmp_path: File) -> None:
    for tid, (name, numbers) in enumerate(
        [("headrace-engine", "9 9 9"), ("lcore-worker-1", "5 300 7"), ("rte-worker-2", "5 30 1")]
    ):
        task = tmp_path / "4" / "task" / str(tid)
        task.mkdir(parents=True)
        (task / "comm").write_text(f"{name}\n")
        (task / "schedstat").write_text(f"{numbers}\n")
    assert run_queue(4, WORKER, tmp_path) == RunQueueCounts(ran_ns=10, waited_ns=330, slices=8)
    assert run_queue(5, WORKER, tmp_path) is None
