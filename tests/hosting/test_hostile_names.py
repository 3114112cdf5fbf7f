# SPDX-License-Identifier: Apache-2.0
"""A VNF that means harm, to whom reads layers of it: this machine's lab, and agents on nodes. What
it calls its network devices, and how many it and its threads are, is its own to choose."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headrace.collect.collector import DEVICES_MOST, THREADS_MOST, Targets, WatchedProcess
from headrace.collect.collector import busiest_thread_ns as busiest
from headrace.collect.virtualization import Virtualization

pytestmark = pytest.mark.beside

_CLONE_NEWNET = 0x40000000
_FORK = multiprocessing.get_context("fork")
# What ends a line for Python (a separator, U+0085, U+2028), orders for a terminal, and no UTF-8.
NAMES = (b"a\x1cb", b"\xc2\x85x", b"\xe2\x80\xa8y", b"c\x1b[2J", b"\xff\xfe", b"a}b{c")


def _makes(names: list[bytes], all_there: threading.Event, ended: threading.Event) -> None:
    assert ctypes.CDLL(None).unshare(_CLONE_NEWNET) == 0
    batch = b"".join(b"link add name %s type veth peer name %s.\n" % (n, n) for n in names)
    subprocess.run(["ip", "-batch", "-"], input=batch, check=True)
    all_there.set()
    ended.wait(120)


@contextmanager
def _vnf(names: list[bytes]) -> Iterator[int]:
    all_there, ended = _FORK.Event(), _FORK.Event()
    process = _FORK.Process(target=_makes, args=(names, all_there, ended))
    process.start()
    try:
        assert all_there.wait(60)
        assert process.pid is not None
        yield process.pid
    finally:
        ended.set()
        process.join()


def _read(pid: int) -> dict[str, float]:
    targets = Targets(processes=(WatchedProcess(name="vnf", pid=pid),))
    readings = list(Virtualization(targets).read())
    assert all(reading.place.startswith("vnf/") for reading in readings)
    return {reading.place: reading.value for reading in readings if reading.metric == "rx_bytes"}


@pytest.mark.needs_root
def test_devices_of_any_name_are_read() -> None:
    with _vnf([*NAMES, b"eth9"]) as pid:
        places = _read(pid)
    assert {"vnf/eth9", "vnf/eth9.", "vnf/lo", "vnf/c?[2J", "vnf/a?b", "vnf/a}b{c"} <= set(places)
    assert all(place.isprintable() for place in places)
    assert len(places) == 1 + 2 * (len(NAMES) + 1)  # each with its counters, and none beside


@pytest.mark.needs_root
def test_as_many_devices_are_read_as_is_bearable() -> None:
    with _vnf([b"d%d" % n for n in range(DEVICES_MOST)]) as pid:
        assert len(_read(pid)) == DEVICES_MOST  # of twice as many, and lo


def test_as_many_threads_are_looked_at_as_is_bearable() -> None:
    """However often a process is named: each time its threads count."""
    asked = 0

    def pids() -> Iterator[int]:
        nonlocal asked
        while True:
            asked += 1
            yield os.getpid()

    assert (busiest(pids()) or 0) > 0
    assert asked <= THREADS_MOST
