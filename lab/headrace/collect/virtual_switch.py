# SPDX-License-Identifier: Apache-2.0
"""Linux bridges and Open vSwitch: forwarding entries, ports' counters, the switch's own CPU."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from headrace.collect.collector import (
    MetricValue,
    Targets,
    busiest_thread_ns,
    cpu_times_s,
    device_readings,
    net_dev,
    text,
)
from headrace.host.inside import Inside
from headrace.host.programs import VSWITCHD
from headrace.spec.collect import Layer

T = TypeVar("T")
_NET = Path("/sys/class/net")
BRIDGE = "kernel bridge"  # where it does
_OVS = Path("/var/run/openvswitch")
_FDB_ENTRY_BYTES = 16  # struct __fdb_entry, <linux/if_bridge.h>
_PMD = re.compile(r"pmd thread numa_id \d+ core_id (\d+):")
_PMD_METRICS = {
    "packets received": "ovs_pmd_packets",
    "emc hits": "ovs_pmd_emc_hits",
    "megaflow hits": "ovs_pmd_megaflow_hits",
    "miss with failed upcall": "ovs_pmd_failed_upcalls",
    "busy iterations": "ovs_pmd_busy_iterations",
    "idle cycles": "ovs_pmd_idle_cycles",
    "processing cycles": "ovs_pmd_processing_cycles",
}


class VirtualSwitch:
    layer: Layer = "virtual-switch"

    def __init__(self, targets: Targets) -> None:
        self._bridges = {name: targets.labels.get(name, name) for name in targets.bridges}
        # A namespace's devices are in its own /sys alone: a thread that stays there reads it.
        self._there = Inside(targets.bridges_in) if targets.bridges_in else None
        self._directory = targets.ovs or _OVS
        self._ovs = _vswitchd(self._directory)

    def refusal(self) -> str | None:
        if not self._bridges and self._ovs is None:
            return "no bridge is part of this measurement, and Open vSwitch does not run"
        return None

    def absent(self) -> dict[str, str]:
        missing = {
            f"bridge {b}": "no such bridge in this namespace"
            for b in self._call(lambda: [b for b in self._bridges if not _is_bridge(b)])
        }
        if self._ovs is not None and shutil.which("ovs-appctl") is None:
            missing["ovs_pmd_packets"] = "ovs-appctl is not installed"
        return missing

    def read(self) -> Iterator[MetricValue]:
        yield from self._call(self._read_bridges)
        if self._ovs is not None:
            yield from _ovs(self._ovs, self._directory)

    def _read_bridges(self) -> list[MetricValue]:
        devices = net_dev("thread-self") if self._bridges else {}
        each = (_bridge(bridge, label, devices) for bridge, label in self._bridges.items())
        return [reading for readings in each for reading in readings]

    def _call(self, work: Callable[[], T]) -> T:
        return self._there.call(work) if self._there else work()

    def close(self) -> None:
        if self._there:
            self._there.close()


def _is_bridge(name: str) -> bool:
    return (_NET / name / "bridge").is_dir()


def _bridge(bridge: str, label: str, devices: dict[str, list[int]]) -> Iterator[MetricValue]:
    try:
        entries = len((_NET / bridge / "brforward").read_bytes()) // _FDB_ENTRY_BYTES
        ports = sorted(p.name for p in (_NET / bridge / "brif").iterdir())
    except OSError:
        return
    yield MetricValue("bridge_fdb_entries", label, entries, "gauge")
    netfilter = text("/proc/sys/net/bridge/bridge-nf-call-iptables")
    if netfilter is not None:
        yield MetricValue("bridge_netfilter", label, float(netfilter), "gauge")
    for port in (bridge, *ports):
        if port in devices:
            yield from device_readings(
                label if port == bridge else f"{label}/{port}", devices[port]
            )


def _vswitchd(directory: Path) -> int | None:
    read = text(directory / "ovs-vswitchd.pid")
    pid = int(read) if read and read.strip().isdigit() else None
    return pid if pid and Path(f"/proc/{pid}").exists() else None


def _ovs(pid: int, directory: Path) -> Iterator[MetricValue]:
    times = cpu_times_s(pid)
    if times is not None:
        yield MetricValue("process_user_s", VSWITCHD, times[0])
        yield MetricValue("process_system_s", VSWITCHD, times[1])
    most = busiest_thread_ns([pid])
    if most is not None:
        yield MetricValue("busiest_thread_ns", VSWITCHD, most)
    yield from pmd_stats(_appctl(directory, "dpif-netdev/pmd-stats-show"))
    flows = re.search(r"flows: (\d+)", _appctl(directory, "dpctl/show"))
    if flows:
        yield MetricValue("ovs_flows", "", int(flows[1]), "gauge")


def _appctl(directory: Path, command: str) -> str:
    # A daemon of ours has its control socket under a fixed name, the system's under its number.
    own = directory / "ovs-vswitchd.ctl"
    target = ["--target", str(own)] if own.exists() else []
    try:
        done = subprocess.run(
            ["ovs-appctl", *target, command],
            capture_output=True,
            errors="replace",
            timeout=2,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def pmd_stats(shown: str) -> Iterator[MetricValue]:
    """`ovs-appctl dpif-netdev/pmd-stats-show`."""
    core = ""
    for line in shown.splitlines():
        if match := _PMD.match(line):
            core = f"cpu{match[1]}"
        elif line.startswith("main thread"):
            core = "main"
        name, _, value = line.strip().partition(":")
        if name in _PMD_METRICS and core and value.split():
            yield MetricValue(_PMD_METRICS[name], core, float(value.split()[0]))
