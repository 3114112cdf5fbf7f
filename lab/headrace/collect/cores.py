# SPDX-License-Identifier: Apache-2.0
"""What each core was busy for: exactly where the kernel takes BPF programs, which time its idle
task and its softirqs from switch to switch; by the kernel's clock ticks elsewhere.

The ticks are samples, and see nothing that begins and ends between two of them: of a machine whose
idle times are short they miss several per cent, and in half a second there are about a hundred.

The same programs say whose the time was, by network namespace: of a process, that of its namespace;
of a softirq, that of the packet which it worked on. The kernel's own account charges a softirq to
the task that it happened to interrupt: the way through a whole chain to the client that sent.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from headrace.collect.collector import MetricValue
from headrace.collect.samples import Window
from headrace.errors import HeadraceError
from headrace.host import programs

_TICKS_S = 0.5  # below, a core's time in its states is a few clock ticks, and says nothing


class Spent(NamedTuple):
    """CPU time of a network namespace, ns since the programs began."""

    processes: int  # of its processes, without the softirqs that interrupted them
    stack: int  # of the kernel's work on its packets, in softirqs and NAPI threads


class CoreClock:
    """headrace-cores, of which each line is one reading."""

    def __init__(self) -> None:
        self.refused: str | None = None
        self._one = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        try:
            program = programs.find_beside_tracer("headrace-cores")
            self._process = subprocess.Popen(
                [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                text=True, errors="replace", process_group=0,
            )  # fmt: skip
        except (HeadraceError, OSError) as why:
            self.refused = str(why)
            return
        if not self._ask():
            _, output = self._process.communicate()
            self.refused = output.strip() or f"{program} ended"
            self._process = None

    def _ask(self) -> str:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            return ""
        with self._one:
            with suppress(OSError):  # it has ended
                process.stdin.write("\n")
                process.stdin.flush()
            return process.stdout.readline()

    def read(self) -> Iterator[MetricValue]:
        for core in self._ask().split():
            if not core.startswith("@"):
                cpu, idle, softirq = core.split(":")
                yield MetricValue("cpu_idle_ns", f"cpu{cpu}", int(idle))
                yield MetricValue("cpu_softirq_ns", f"cpu{cpu}", int(softirq))

    def spent(self) -> dict[int, Spent]:
        """What was spent by the namespace's inode number; 0: of softirqs that had no packet, as
        timers. None where the kernel takes no BPF programs."""
        times = {}
        for one in self._ask().split():
            if one.startswith("@"):
                namespace, processes, stack = one[1:].split(":")
                times[int(namespace)] = Spent(int(processes), int(stack))
        return times

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate()
            self._process = None


class _Shared(CoreClock):
    """Closed when the last that asked for it closes it."""

    users = 0

    def close(self) -> None:
        global _shared
        self.users -= 1
        if not self.users:
            _shared = None
            super().close()


_shared: _Shared | None = None


def core_clock() -> CoreClock:
    """The one of this process, to be closed by each that asks: each more would run at every packet
    once more."""
    global _shared
    _shared = _shared or _Shared()
    _shared.users += 1
    return _shared


def busy(hardware: Window) -> dict[str, float]:
    """Share of each core's time that it was not idle; of none where it was watched too briefly."""
    idle = {cpu: ns / 1e9 for cpu, ns in hardware.rate("cpu_idle_ns").items()}
    if not idle and hardware.seconds >= _TICKS_S:
        waiting = hardware.rate("cpu_iowait_s")
        idle = {c: s + waiting.get(c, 0.0) for c, s in hardware.rate("cpu_idle_s").items()}
    return {cpu: max(0.0, 1.0 - share) for cpu, share in idle.items()}


def softirq(hardware: Window) -> dict[str, float]:
    """Share of each core's time in softirqs; as `busy`."""
    exact = {cpu: ns / 1e9 for cpu, ns in hardware.rate("cpu_softirq_ns").items()}
    if exact or hardware.seconds < _TICKS_S:
        return exact
    return hardware.rate("cpu_softirq_s")
