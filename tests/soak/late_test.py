# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import threading
import time

import pytest

from soak.late import Clock, Moment, had_its_chance, waited_s

pytestmark = pytest.mark.parallel

THERE = Moment(second=100, received=1000, waited={"1": 5.0, "2": 0.0})


def test_a_vnf_that_slept_while_others_got_packets_is_to_blame() -> None:
    now = Moment(second=170, received=600_000, waited={"1": 6.0, "2": 0.1, "3": 0.0})
    assert had_its_chance(THERE, now)


def test_one_whose_thread_had_no_cpu_is_not() -> None:
    starved = Moment(second=170, received=600_000, waited={"1": 6.0, "2": 60.0})
    assert not had_its_chance(THERE, starved)
    late = Moment(second=170, received=600_000, waited={"1": 6.0, "2": 0.1, "3": 60.0})
    assert not had_its_chance(THERE, late)  # a thread that it got later, or the host did


def test_one_whose_host_carried_nothing_is_not() -> None:
    assert not had_its_chance(THERE, Moment(second=170, received=20_000, waited={"1": 5.0}))


def test_steps_of_a_machine_that_stood_still_are_counted_apart() -> None:
    clock = Clock()
    for step in (0.2, 0.3, 240.0, 0.5):
        clock.count(step)
    assert clock.seconds == pytest.approx(3.0)
    assert clock.stood == pytest.approx(238.0)


def test_waiting_for_a_cpu_is_the_kernels() -> None:
    """Two threads that share one CPU and both want it wait for each other; one asleep does not."""
    was = os.sched_getaffinity(0)
    ended = time.monotonic() + 1.0

    def spin() -> None:
        os.sched_setaffinity(0, {min(was)})
        while time.monotonic() < ended:
            pass

    children = [os.fork() for _ in range(2)]
    if 0 in children:
        spin()
        os._exit(0)
    sleeper = threading.Thread(target=time.sleep, args=(0.8,))
    sleeper.start()
    time.sleep(0.7)
    spinning = [sum(waited_s(child).values()) for child in children]
    asleep = waited_s(os.getpid())[str(sleeper.native_id)]
    for child in children:
        os.waitpid(child, 0)
    sleeper.join()
    assert sum(spinning) > 0.1 > asleep
