# SPDX-License-Identifier: Apache-2.0
"""The operating system: context switches, softirqs, queues and drops of its network stack.

Stack latency itself comes from the tracer (headrace.collect.stack).
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from headrace.collect.collector import (
    MetricValue,
    Targets,
    WatchedProcess,
    cpu_times_s,
    netns_of,
    pairs,
    text,
)
from headrace.collect.perf import TRACEPOINT, PerfCounter, PerfRefused, tracepoint
from headrace.spec.collect import Layer

_SOFTIRQS = ("NET_TX", "NET_RX", "TIMER", "SCHED", "RCU")
# Of /proc/net/snmp and netstat: what points at a bottleneck in the stack.
_PROTOCOLS = {
    "Tcp.RetransSegs": "tcp_retransmitted_segments",
    "Tcp.OutSegs": "tcp_sent_segments",
    "Udp.RcvbufErrors": "udp_receive_buffer_full_packets",
    "Udp.SndbufErrors": "udp_send_buffer_full_packets",
    "Udp.NoPorts": "udp_no_port_packets",
    "Ip.InReceives": "ip_received_packets",
    "Ip.ReasmReqds": "ip_fragments_received",
    "Ip.ReasmOKs": "ip_datagrams_reassembled",
    "Ip.ReasmFails": "ip_reassembly_failures",
    "Ip.FragCreates": "ip_fragments_sent",
    "Ip.ForwDatagrams": "ip_forwarded_datagrams",
    "TcpExt.TCPBacklogDrop": "tcp_backlog_full_segments",
    "TcpExt.ListenOverflows": "tcp_accept_queue_full_connections",
    "TcpExt.TCPRcvQDrop": "tcp_receive_queue_full_segments",
}


class OperatingSystem:
    layer: Layer = "os"

    def __init__(self, targets: Targets) -> None:
        self._processes = targets.processes
        self._syscalls: dict[str, PerfCounter] = {}
        self._no_syscalls: str | None = None
        try:
            number = tracepoint("raw_syscalls/sys_enter")
            for cpu in sorted(os.sched_getaffinity(0)):
                self._syscalls[f"cpu{cpu}"] = PerfCounter(TRACEPOINT, number, cpu)
        except PerfRefused as why:
            self._no_syscalls = str(why)
            self.close()

    def refusal(self) -> str | None:
        return None if text("/proc/stat") else "/proc/stat cannot be read"

    def absent(self) -> dict[str, str]:
        missing = {}
        if self._no_syscalls:
            missing["system_calls"] = self._no_syscalls
        if text("/proc/self/schedstat") is None:
            missing["run_queue_delay_ns"] = "this kernel has no /proc/PID/schedstat"
        if text("/proc/net/stat/nf_conntrack") is None:
            missing["conntrack_entries"] = "connection tracking is not loaded"
        if text("/proc/pressure/cpu") is None:
            missing["cpu_pressure_us"] = "this kernel has no pressure stall information, or off"
        return missing

    def read(self) -> Iterator[MetricValue]:
        yield from _machine()
        for cpu, counter in self._syscalls.items():
            yield MetricValue("system_calls", cpu, counter.read())
        yield from softnet(text("/proc/net/softnet_stat") or "")
        yield from softirqs(text("/proc/softirqs") or "")
        yield from _pressure()
        for process in self._processes:
            yield from _process(process)
        seen = set()
        for process in (WatchedProcess(name="host", pid=os.getpid()), *self._processes):
            namespace = netns_of(process.pid)
            if namespace is not None and namespace not in seen:
                seen.add(namespace)
                yield from _stack(process)

    def close(self) -> None:
        for counter in self._syscalls.values():
            counter.close()
        self._syscalls.clear()


def _machine() -> Iterator[MetricValue]:
    stat = pairs("/proc/stat")
    yield MetricValue("context_switches", "", stat.get("ctxt", 0))
    yield MetricValue("forks", "", stat.get("processes", 0))
    yield MetricValue("runnable_tasks", "", stat.get("procs_running", 0), "gauge")


def softnet(table: str) -> Iterator[MetricValue]:
    """/proc/net/softnet_stat: hexadecimal; packets, backlog drops, budget or time ran out.

    The 13th column is the CPU: lines of CPUs that are offline are left out by the kernel.
    """
    for number, line in enumerate(table.splitlines()):
        columns = [int(c, 16) for c in line.split()]
        cpu = f"cpu{columns[12] if len(columns) > 12 else number}"
        yield MetricValue("softnet_packets", cpu, columns[0])
        yield MetricValue("softnet_dropped_packets", cpu, columns[1])
        yield MetricValue("softnet_squeezed", cpu, columns[2])


def softirqs(table: str) -> Iterator[MetricValue]:
    for line in table.splitlines()[1:]:
        name, _, counts = line.strip().partition(":")
        if name in _SOFTIRQS:
            for cpu, count in enumerate(counts.split()):
                yield MetricValue(f"softirq_{name.lower()}", f"cpu{cpu}", int(count))


def _pressure() -> Iterator[MetricValue]:
    for line in (text("/proc/pressure/cpu") or "").splitlines():
        if line.startswith("some"):
            yield MetricValue("cpu_pressure_us", "", float(line.rpartition("total=")[2]))


def _process(process: WatchedProcess) -> Iterator[MetricValue]:
    times = cpu_times_s(process.pid)
    if times is None:
        return
    yield MetricValue("process_user_s", process.name, times[0])
    yield MetricValue("process_system_s", process.name, times[1])
    schedstat = (text(f"/proc/{process.pid}/schedstat") or "").split()
    if len(schedstat) == 3:
        yield MetricValue("run_queue_delay_ns", process.name, int(schedstat[1]))
    for line in (text(f"/proc/{process.pid}/status") or "").splitlines():
        name, _, value = line.partition(":")
        if name in ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"):
            yield MetricValue(f"process_{name}", process.name, int(value))
    for line in (text(f"/proc/{process.pid}/io") or "").splitlines():
        name, _, value = line.partition(":")
        if name in ("syscr", "syscw"):
            kind = "read" if name == "syscr" else "write"
            yield MetricValue(f"process_{kind}_syscalls", process.name, int(value))


def protocols(*tables: str) -> dict[str, int]:
    """/proc/net/snmp and /proc/net/netstat: a line of names, then one of values."""
    counts = {}
    for table in tables:
        lines = table.splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=False):
            group, _, rest = names.partition(":")
            for name, value in zip(rest.split(), values.split()[1:], strict=False):
                counts[f"{group}.{name}"] = int(value)
    return counts


def _stack(process: WatchedProcess) -> Iterator[MetricValue]:
    net = f"/proc/{process.pid}/net"
    counts = protocols(text(f"{net}/snmp") or "", text(f"{net}/netstat") or "")
    for key, metric in _PROTOCOLS.items():
        if key in counts:
            yield MetricValue(metric, process.name, counts[key])
    conntrack = (text(f"{net}/stat/nf_conntrack") or "").splitlines()
    if len(conntrack) > 1:
        columns = conntrack[0].split()
        rows = [[int(v, 16) for v in line.split()] for line in conntrack[1:]]
        # `entries` is the namespace's and the same in each CPU's line; the others add up.
        yield MetricValue("conntrack_entries", process.name, rows[0][0], "gauge")
        for name in ("insert_failed", "drop", "early_drop"):
            if name in columns:
                at = columns.index(name)
                yield MetricValue(f"conntrack_{name}", process.name, sum(r[at] for r in rows))
