# SPDX-License-Identifier: Apache-2.0
"""What the kernel forwards for a VNF, held to the VNF's `cpus` or `cpuset`.

A router's, firewall's or NAT's packets are forwarded in softirqs, which belong to no control
group: a container's quota does not reach them. So the VNF's interfaces are polled by threads of
their own (threaded NAPI). These run on the CPUs of `cpuset`; or their time is limited by
SCHED_DEADLINE, which gives each a runtime in every period, of which the sum is `cpus`. The quota of
their control group would not do: since Linux 6.18 a thread is stopped on its way back to user
space, where kernel threads never go. A deadline thread may not be bound to some CPUs only, hence
one or the other.

veth hands packets to NAPI only where the sender does not leave segmentation to it. So both sides of
the VNF's interfaces send whole frames, as on a wire, and merge them again on receipt (GRO); and the
far side is polled by threads as well, lest a VNF's time be spent on what its neighbours receive.
"""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from headrace.collect.collector import thread_ns
from headrace.errors import HeadraceError
from headrace.host.cpu_time import listed
from headrace.host.plumbing import offload, within

PERIOD_NS = 1_000_000  # longer, and a veth's ring of 256 packets is what limits
SHIFT_S = 0.05  # how often the runtime is shared out anew between a VNF's threads
LEAST = 0.1  # of an equal share: what a thread keeps that had nothing to do
FULL = 0.9  # of its runtime: a thread that used more might have used more still
_SPARE = 1.25  # what a thread gets that did not use up its own, of what it used
_DEADLINE = 6  # SCHED_DEADLINE, linux/sched.h
_SETATTR = {"x86_64": 314, "aarch64": 274, "riscv64": 274}  # sched_setattr(2)
_libc = ctypes.CDLL(None, use_errno=True)


LIMITED = ("bridge", "ovs")  # networks whose interfaces can be polled by threads
_SCHEDULER = Path("/proc/sys/kernel")


def reservable() -> float:
    """CPUs that deadline threads may have together, by sched_rt_runtime_us (-1: all)."""
    runtime = int((_SCHEDULER / "sched_rt_runtime_us").read_text())
    period = int((_SCHEDULER / "sched_rt_period_us").read_text())
    all_ = os.cpu_count() or 1
    return all_ * runtime / period if runtime >= 0 else float(all_)


class _Attributes(ctypes.Structure):
    """struct sched_attr, as of its first version."""

    _fields_ = (
        ("size", ctypes.c_uint32), ("policy", ctypes.c_uint32), ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32), ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64), ("deadline", ctypes.c_uint64), ("period", ctypes.c_uint64),
    )  # fmt: skip


def _limit(thread: int, cpus: float) -> None:
    runtime = int(cpus * PERIOD_NS)
    a = _Attributes(48, _DEADLINE, 0, 0, 0, runtime, PERIOD_NS, PERIOD_NS)
    if _libc.syscall(_SETATTR[platform.machine()], thread, ctypes.byref(a), 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@dataclass(frozen=True)
class End:
    """One end of a pair of interfaces."""

    namespace: str
    device: str

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Runs it with the namespace's own /sys. Where a container's runtime mounted it first,
        nobody may write to it; the container's own mount of it stays as it is."""
        inside = ["ip", "netns", "exec", self.namespace]
        return subprocess.run(
            [*inside, "sh", "-c", f"mount -o remount,rw /sys && {command}"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def set(self, name: str, *, on: bool) -> None:
        within(self.namespace, partial(offload, self.device, name, on=on))


@dataclass
class Forwarding:
    """The threads that forward for one container."""

    name: str
    cpus: float | None
    threads: list[int] = field(default_factory=list)
    budgets: list[float] = field(default_factory=list)  # CPUs; their sum is `cpus`
    used_ns: list[int] = field(default_factory=list)  # when they were last shared out
    at_s: float = 0.0

    def poll(self, own: End, far: End, *, merge: bool) -> None:
        """`merge`: the far side may receive merged frames, which Open vSwitch may not."""
        for end in (own, far):
            end.set("tso", on=False)
        own.set("gro", on=True)
        self.threads += _threaded(own)
        if merge:
            far.set("gro", on=True)
            _threaded(far)

    def bind(self, cpuset: str) -> None:
        for thread in self.threads:
            os.sched_setaffinity(thread, set(listed(cpuset)))

    def hold(self) -> None:
        """Keeps it to its `cpus` from now on."""
        if self.cpus is None or self.cpus >= len(self.threads):
            return  # none can take more than one
        each = self.cpus / len(self.threads)
        self.budgets = [each] * len(self.threads)
        self.at_s, self.used_ns = time.monotonic(), self.each_ns()
        try:
            for thread in self.threads:
                _limit(thread, each)
        except OSError as error:
            raise HeadraceError(
                f"VNF {self.name}: cpus: {self.cpus:g}: the kernel does not take this limit of its "
                f"forwarding threads: {error.strerror}"
            ) from None

    def each_ns(self) -> list[int]:
        """CPU time of each thread since it began."""
        return [thread_ns(thread) or 0 for thread in self.threads]

    def shift(self) -> None:
        """Moves shares to where packets are: the sum stays what it is."""
        at, now = time.monotonic(), self.each_ns()
        passed = (at - self.at_s) * 1e9
        used = [(a - b) / passed for a, b in zip(now, self.used_ns, strict=True)]
        self.at_s, self.used_ns = at, now
        assert self.cpus is not None
        new = share_out(self.cpus, self.budgets, used)
        order = sorted(range(len(new)), key=lambda i: new[i] - self.budgets[i])
        for i in order:  # first those that get less
            _limit(self.threads[i], new[i])
        self.budgets = new


def share_out(cpus: float, budgets: Sequence[float], used: Sequence[float]) -> list[float]:
    """What each thread may take next, by what it took of its budget: who had enough keeps a little
    more than that, and who had not shares the rest, and moves towards equal shares in case that the
    others' work depends on its own."""
    n = len(budgets)
    least = LEAST * cpus / n
    full = [u >= FULL * b for u, b in zip(used, budgets, strict=True)]
    if not any(full) or all(full):
        return [(1 - LEAST) * b + least for b in budgets]
    kept = [max(least, _SPARE * u) for u in used]
    new = [0.0 if f else min(b, k) for f, b, k in zip(full, budgets, kept, strict=True)]
    rest, hungry = cpus - sum(new), sum(b for f, b in zip(full, budgets, strict=True) if f)
    return [
        rest * b / hungry if f else given for f, b, given in zip(full, budgets, new, strict=True)
    ]


def _polling(device: str) -> set[int]:
    """Threads that poll devices of this name, of whichever namespace."""
    threads = set()
    for comm in Path("/proc").glob("[0-9]*/comm"):
        with suppress(OSError):
            if comm.read_text().startswith(f"napi/{device}-"):
                threads.add(int(comm.parent.name))
    return threads


def _threaded(end: End) -> list[int]:
    """Have an interface polled by threads; these."""
    before = _polling(end.device)
    done = end.run(f"echo 1 > /sys/class/net/{end.device}/threaded")
    threads = sorted(_polling(end.device) - before)
    if done.returncode or not threads:
        why = done.stderr.strip() or "the kernel made no thread for it"
        raise HeadraceError(
            f"interface {end.device} of {end.namespace}: cannot be polled by a "
            f"thread, which `cpus` and `cpuset` of a VNF need for which the kernel forwards: {why}"
        )
    return threads


class Shifter:
    """Shares each VNF's `cpus` out between its threads again and again, until it is stopped."""

    def __init__(self, all_: Sequence[Forwarding]) -> None:
        self._all = [one for one in all_ if one.budgets]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="shifter", daemon=True)
        if self._all:
            self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(SHIFT_S):
            for one in self._all:
                with suppress(OSError):  # its threads end with their devices
                    one.shift()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
