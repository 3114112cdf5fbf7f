# SPDX-License-Identifier: Apache-2.0
"""Cores: where their time goes, their frequency; with a PMU also IPC and cache misses; what their
packages take, where RAPL tells it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from headrace.collect.collector import MetricValue, Targets, number, text
from headrace.collect.cores import core_clock
from headrace.collect.energy import EnergyZones
from headrace.collect.perf import (
    CACHE_MISSES,
    CACHE_REFERENCES,
    CYCLES,
    HARDWARE,
    INSTRUCTIONS,
    PerfCounter,
    PerfRefused,
)
from headrace.spec.collect import Layer

_HZ = os.sysconf("SC_CLK_TCK")
# proc(5), /proc/stat
_STATES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_EVENTS = {
    "cycles": CYCLES,
    "instructions": INSTRUCTIONS,
    "cache_references": CACHE_REFERENCES,
    "cache_misses": CACHE_MISSES,
}
_CPUS = Path("/sys/devices/system/cpu")


class Hardware:
    layer: Layer = "hardware"

    def __init__(self, targets: Targets) -> None:
        self._counters: dict[tuple[str, str], PerfCounter] = {}
        self._no_pmu: str | None = None
        self._clock = core_clock()
        self._energy = EnergyZones()
        self._open()

    def _open(self) -> None:
        try:
            for cpu in sorted(os.sched_getaffinity(0)):
                for name, event in _EVENTS.items():
                    self._counters[name, f"cpu{cpu}"] = PerfCounter(HARDWARE, event, cpu)
        except PerfRefused as why:
            self._no_pmu = str(why)
            self._close_counters()

    def refusal(self) -> str | None:
        return None if text("/proc/stat") else "/proc/stat cannot be read"

    def absent(self) -> dict[str, str]:
        missing = {}
        if self._no_pmu:
            missing = dict.fromkeys(("ipc", "cache_misses"), self._no_pmu)
        if not any(True for _ in frequencies()):
            missing["frequency_mhz"] = "neither cpufreq nor /proc/cpuinfo has it"
        if self._energy.refused:
            missing["energy_uj"] = self._energy.refused
        if self._clock.refused:
            exact = ("cpu_idle_ns", "cpu_softirq_ns")
            missing |= dict.fromkeys(exact, f"{self._clock.refused}; clock ticks instead")
        return missing

    def read(self) -> Iterator[MetricValue]:
        yield from self._clock.read()
        yield from cpu_times(text("/proc/stat") or "")
        yield from frequencies()
        yield from self._energy.read()
        for (name, cpu), counter in self._counters.items():
            yield MetricValue(name, cpu, counter.read())

    def close(self) -> None:
        self._clock.close()
        self._close_counters()

    def _close_counters(self) -> None:
        for counter in self._counters.values():
            counter.close()
        self._counters.clear()


def cpu_times(stat: str) -> Iterator[MetricValue]:
    for line in stat.splitlines():
        cpu, *ticks = line.split()
        if cpu.startswith("cpu") and cpu != "cpu":
            for state, value in zip(_STATES, ticks, strict=False):
                yield MetricValue(f"cpu_{state}_s", cpu, int(value) / _HZ)


def frequencies() -> Iterator[MetricValue]:
    for folder in sorted(_CPUS.glob("cpu[0-9]*/cpufreq")):
        khz = number(folder / "scaling_cur_freq")
        if khz is not None:
            yield MetricValue("frequency_mhz", folder.parent.name, khz / 1000, "gauge")
    if (_CPUS / "cpu0/cpufreq").exists():
        return
    cpu = ""
    for line in (text("/proc/cpuinfo") or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "processor":
            cpu = f"cpu{value.strip()}"
        elif name.strip() == "cpu MHz":
            yield MetricValue("frequency_mhz", cpu, float(value), "gauge")
