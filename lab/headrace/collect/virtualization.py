# SPDX-License-Identifier: Apache-2.0
"""Containers and VMs: CPU, memory and throttling by cgroup (v1 and v2), and their devices."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from headrace.collect.collector import (
    DEVICES_MOST,
    MetricValue,
    Targets,
    busiest_thread_ns,
    device_readings,
    net_dev,
    netns_of,
    number,
    pairs,
    text,
    thread_ns,
)
from headrace.host.cgroups import mounts
from headrace.spec.collect import Layer


class Virtualization:
    layer: Layer = "virtualization"

    def __init__(self, targets: Targets) -> None:
        self._cgroups = targets.cgroups
        self._labels = targets.labels
        self._processes = targets.processes
        self._held = targets.held
        self._mounts = mounts()

    def refusal(self) -> str | None:
        if not self._cgroups and not self._processes:
            return "nothing to watch: no container, VM or process is part of this measurement"
        return None

    def absent(self) -> dict[str, str]:
        return {
            f"cgroup {name}": "no such cgroup in the hierarchies that are mounted"
            for name in self._cgroups
            if not any(True for _ in self._cgroup(name))
        }

    def read(self) -> Iterator[MetricValue]:
        for name in self._cgroups:
            yield from self._cgroup(name)
        for one in self._held:
            used = [thread_ns(thread) for thread in one.threads]
            yield MetricValue("forwarding_cpu_ns", one.name, sum(ns or 0 for ns in used))
            yield MetricValue("forwarding_quota_cpus", one.name, one.cpus, "gauge")
        own = netns_of(1)
        seen = {own}
        for process in self._processes:
            namespace = netns_of(process.pid)
            if namespace is None or namespace in seen:
                continue
            seen.add(namespace)
            for device, values in net_dev(process.pid, DEVICES_MOST).items():
                yield from device_readings(f"{process.name}/{device}", values)

    def close(self) -> None:
        return

    def _cgroup(self, name: str) -> Iterator[MetricValue]:
        relative = name.lstrip("/")
        name = self._labels.get(name, name)
        if (v2 := self._mounts.get("")) and (v2 / relative / "cpu.stat").exists():
            yield from _v2(name, v2 / relative)
            # With both hierarchies mounted, controllers that v1 holds are missing in v2.
        yield from self._v1(name, relative)
        yield from self._busiest_thread(name, relative)

    def _busiest_thread(self, name: str, relative: str) -> Iterator[MetricValue]:
        for root in dict.fromkeys(filter(None, map(self._mounts.get, ("cpuacct", "cpu", "")))):
            pids = text(root / relative / "cgroup.procs")
            if pids is not None:
                most = busiest_thread_ns(map(int, pids.split()))
                if most is not None:
                    yield MetricValue("busiest_thread_ns", name, most)
                return

    def _v1(self, name: str, relative: str) -> Iterator[MetricValue]:
        if cpuacct := self._mounts.get("cpuacct"):
            usage = number(cpuacct / relative / "cpuacct.usage")
            if usage is not None:
                yield MetricValue("cgroup_cpu_ns", name, usage)
        if cpu := self._mounts.get("cpu"):
            stat = pairs(cpu / relative / "cpu.stat")
            yield from _throttling(name, stat, stat.get("throttled_time"))
            quota = number(cpu / relative / "cpu.cfs_quota_us")
            period = number(cpu / relative / "cpu.cfs_period_us")
            if quota and period and quota > 0:
                yield MetricValue("cgroup_cpu_quota_cpus", name, quota / period, "gauge")
        if memory := self._mounts.get("memory"):
            used = number(memory / relative / "memory.usage_in_bytes")
            if used is not None:
                yield MetricValue("cgroup_memory_bytes", name, used, "gauge")


def _throttling(
    name: str, stat: dict[str, float], throttled_ns: float | None
) -> Iterator[MetricValue]:
    if "nr_throttled" in stat:
        yield MetricValue("cgroup_periods", name, stat.get("nr_periods", 0))
        yield MetricValue("cgroup_throttled_periods", name, stat["nr_throttled"])
    if throttled_ns is not None:
        yield MetricValue("cgroup_throttled_ns", name, throttled_ns)


def _v2(name: str, folder: Path) -> Iterator[MetricValue]:
    stat = pairs(folder / "cpu.stat")
    if "usage_usec" in stat and (folder / "cpu.max").exists():
        yield MetricValue("cgroup_cpu_ns", name, stat["usage_usec"] * 1000)
        throttled = stat.get("throttled_usec")
        yield from _throttling(name, stat, None if throttled is None else throttled * 1000)
        quota, _, period = (folder / "cpu.max").read_text().partition(" ")
        if quota != "max":
            yield MetricValue("cgroup_cpu_quota_cpus", name, float(quota) / float(period), "gauge")
    used = number(folder / "memory.current")
    if used is not None:
        yield MetricValue("cgroup_memory_bytes", name, used, "gauge")
