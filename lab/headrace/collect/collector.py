# SPDX-License-Identifier: Apache-2.0
"""What a collector is, what it watches, and how it reads the kernel's files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from pydantic import Field

from headrace.host.tool import printable
from headrace.record.frozen import Record
from headrace.spec.collect import Layer

_HZ = os.sysconf("SC_CLK_TCK")
# Those who are watched may have as many threads and devices as their kernel lets them, and call a
# device what they like: so much of it is looked at with each sample.
THREADS_MOST = 4096  # of a control group
DEVICES_MOST = 256  # of a namespace
_DEVICE_COLUMNS = 16  # of /proc/net/dev


class MetricValue(NamedTuple):
    """One figure. A `counter` only grows: its rate is the difference of two readings."""

    metric: str  # unit in the name
    place: str  # CPU, process, device, cgroup ...; "" for the machine
    value: float
    kind: Literal["counter", "gauge"] = "counter"


class WatchedProcess(Record):
    """A process to watch, under the name that the report gives it."""

    name: str
    pid: int


class Held(Record):
    """Kernel threads that forward for a container, and the CPUs that they may take together."""

    name: str
    cpus: float
    threads: tuple[int, ...]


class Targets(Record):
    """What belongs to the experiment. Empty: the machine as a whole is read all the same."""

    # Their namespaces' devices and protocol counters are read through them.
    processes: tuple[WatchedProcess, ...] = ()
    cgroups: tuple[str, ...] = ()  # below the controllers' mount points
    labels: dict[str, str] = Field(
        default_factory=dict
    )  # cgroup or bridge: what the report calls it
    bridges: tuple[str, ...] = ()
    bridges_in: str | None = None  # the named network namespace of theirs; None: this process's
    held: tuple[Held, ...] = ()
    ovs: Path | None = None  # run directory of an Open vSwitch of ours; None: the system's
    telemetry: tuple[Path, ...] = ()  # DPDK telemetry sockets of engines


class Collector(Protocol):
    @property
    def layer(self) -> Layer: ...

    def refusal(self) -> str | None:
        """Why nothing of this layer can be read here; None when something can."""

    def absent(self) -> dict[str, str]:
        """Metrics of this layer that are missing although it runs, and why."""

    def read(self) -> Iterator[MetricValue]:
        """One sample. What has gone meanwhile (a process that ended) is left out."""

    def close(self) -> None: ...


def text(path: str | Path) -> str | None:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return None


def cpu_times_s(pid: int) -> tuple[float, float] | None:
    """Its CPU time in user and in system mode; proc(5): utime, stime. None: it has gone."""
    stat = text(f"/proc/{pid}/stat")
    if stat is None:
        return None
    fields = stat.rpartition(")")[2].split()
    return int(fields[11]) / _HZ, int(fields[12]) / _HZ


def thread_ns(thread: int) -> int | None:
    """CPU time that a thread has had; /proc/PID/schedstat. None: it has gone."""
    fields = (text(f"/proc/{thread}/schedstat") or "").split()
    return int(fields[0]) if len(fields) == 3 else None


_OWN_ENGINE = "headrace-engine"  # its workers poll, and count their idle time themselves


def busiest_thread_ns(pids: Iterable[int]) -> int | None:
    """CPU time of the thread of these processes that has had the most: however many cores there
    are, it cannot have more than one. /proc/PID/schedstat; engines of ours are left out."""
    most = None
    for thread in islice(_threads(pids), THREADS_MOST):
        fields = (text(thread / "schedstat") or "").split()
        if len(fields) == 3:
            most = max(most or 0, int(fields[0]))
    return most


def _threads(pids: Iterable[int]) -> Iterator[Path]:
    for pid in pids:
        if (text(f"/proc/{pid}/comm") or "").strip() == _OWN_ENGINE:
            continue
        try:
            with os.scandir(f"/proc/{pid}/task") as tasks:
                yield from (Path(task.path) for task in tasks)
        except OSError:
            continue


def number(path: str | Path) -> float | None:
    read = text(path)
    try:
        return None if read is None else float(read)
    except ValueError:
        return None  # "max"


def pairs(path: str | Path) -> dict[str, float]:
    """Lines of a name and a number, as in cpu.stat."""
    values = {}
    for line in (text(path) or "").splitlines():
        name, _, value = line.partition(" ")
        if value.strip().isdigit():
            values[name] = float(value)
    return values


def net_dev(pid: int | str, most: int | None = None) -> dict[str, list[int]]:
    """/proc/PID/net/dev: devices of that process's network namespace, the first `most` of them."""
    counts = {}
    try:
        with Path(f"/proc/{pid}/net/dev").open("rb") as lines:
            for line in islice(lines, 2, None if most is None else 2 + most):
                # Names have no colon and no space; all else may be in them, what ends a line for
                # str.splitlines() among it.
                name, _, values = line.partition(b":")
                columns = values.split()
                if len(columns) == _DEVICE_COLUMNS:
                    device = printable(name.decode(errors="replace").strip(" "))
                    counts[device] = [int(v) for v in columns]
    except OSError:
        pass  # it has gone
    return counts


def device_readings(place: str, values: list[int]) -> Iterator[MetricValue]:
    """Columns as in the kernel's dev_seq_printf_stats."""
    for column, metric in (
        (0, "rx_bytes"),
        (1, "rx_packets"),
        (3, "rx_dropped_packets"),
        (8, "tx_bytes"),
        (9, "tx_packets"),
        (11, "tx_dropped_packets"),
    ):
        yield MetricValue(metric, place, values[column])


def netns_of(pid: int) -> str | None:
    try:
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    except OSError:
        return None
