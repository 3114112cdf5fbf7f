# SPDX-License-Identifier: Apache-2.0
"""What each core was busy for: exactly where the kernel takes BPF programs, which time its idle
task and its softirqs from switch to switch; by the kernel's clock ticks elsewhere.

The ticks are samples, and see nothing that begins and ends between two of them: of a machine whose
idle times are short they miss several per cent, and in half a second there are about a hundred.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress

from headrace.errors import HeadraceError
from headrace.measure.collectors.base import Reading
from headrace.measure.collectors.samples import Window
from headrace.testbed import programs

_TICKS_S = 0.5  # below, a core's time in its states is a few clock ticks, and says nothing


class CoreClock:
    """headrace-cores, of which each line is one reading."""

    def __init__(self) -> None:
        self.refused: str | None = None
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
            _, said = self._process.communicate()
            self.refused = said.strip() or f"{program} ended"
            self._process = None

    def _ask(self) -> str:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            return ""
        with suppress(OSError):  # it has ended
            process.stdin.write("\n")
            process.stdin.flush()
        return process.stdout.readline()

    def read(self) -> Iterator[Reading]:
        for core in self._ask().split():
            cpu, idle, softirq = core.split(":")
            yield Reading("cpu_idle_ns", f"cpu{cpu}", int(idle))
            yield Reading("cpu_softirq_ns", f"cpu{cpu}", int(softirq))

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate()
            self._process = None


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
