# SPDX-License-Identifier: Apache-2.0
"""Events by processor, and counters that count where there are any."""

from __future__ import annotations

import os

import pytest

from headrace.collect import pmu
from headrace.collect.perf import PerfRefused
from headrace.model.stalls import STALLED

AMD = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\n\nprocessor\t: 1\n"
INTEL = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n"


def test_events_are_the_processor_s() -> None:
    # ls_dmnd_fills_from_sys: event 0x43, unit mask 0x02 for the last level of the complex.
    assert pmu.events(AMD)["loads_llc"] == (4, 0x0243)
    # Cycles in which less than one operation retired: counter mask 1, inverted.
    assert pmu.events(AMD)[STALLED] == (4, 0x18000C1)
    # MEM_LOAD_RETIRED.L3_HIT: event 0xd1, unit mask 0x04.
    assert pmu.events(INTEL)["loads_llc"] == (4, 0x04D1)
    assert "loads_other" not in pmu.events(INTEL)
    # MEMORY_ACTIVITY.STALLS_L3_MISS of Golden Cove: event 0x47, unit mask 9, counter mask 9.
    assert pmu.events(INTEL)["stalled_l3_miss"] == (4, 0x9000947)
    # CYCLE_ACTIVITY.STALLS_L3_MISS of Skylake: event 0xa3, unit mask 6, counter mask 6.
    assert pmu.events(INTEL.replace("143", "85"))["stalled_l3_miss"] == (4, 0x60006A3)


@pytest.mark.parametrize("text", ["", "vendor_id: AuthenticAMD\ncpu family: 16\n", "a: b\n\n"])
def test_of_an_unknown_processor_only_what_all_have(text: str) -> None:
    assert pmu.events(text) == dict(pmu.GENERIC)


def test_what_the_pmu_counts_grows() -> None:
    allowed = os.sched_getaffinity(0)
    cpu = min(allowed)
    try:
        with pmu.counting(cpu) as count:
            before = count()
            os.sched_setaffinity(0, {cpu})
            sum(i * i for i in range(200_000))
            after = count()
    except PerfRefused as why:
        pytest.skip(f"no PMU: {why}")
    finally:
        os.sched_setaffinity(0, allowed)
    assert after["instructions"] - before["instructions"] > 200_000
    assert after["cycles"] > before["cycles"]
