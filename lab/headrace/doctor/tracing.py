# SPDX-License-Identifier: Apache-2.0
"""Hardware counters and the kernel's tracing, by opening an event of each kind."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterator
from pathlib import Path

from headrace.doctor.check import CheckGroup, DoctorCheck, root, sudo
from headrace.host.server import sysfs

GROUP = CheckGroup("observation")
_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}  # syscall numbers
_HARDWARE, _CYCLES = 0, 0
_ATTR_BYTES = 128
_EXCLUDE_KERNEL_AND_HYPERVISOR = 1 << 5 | 1 << 6


def checks() -> Iterator[DoctorCheck]:
    yield _counters()
    yield _btf()
    yield _kprobes()


def perf_event(kind: int, config: int) -> int:
    """0 when such an event opens for this process, else the errno."""
    number = _PERF_EVENT_OPEN.get(platform.machine())
    if number is None:
        return errno.ENOSYS
    attr = bytearray(_ATTR_BYTES)
    struct.pack_into("<IIQ", attr, 0, kind, _ATTR_BYTES, config)
    struct.pack_into("<Q", attr, 40, _EXCLUDE_KERNEL_AND_HYPERVISOR)
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = (ctypes.c_char * _ATTR_BYTES).from_buffer(attr)
    fd = libc.syscall(ctypes.c_long(number), buffer, 0, -1, -1, ctypes.c_ulong(0))
    if fd < 0:
        return ctypes.get_errno()
    os.close(fd)
    return 0


def _counters() -> DoctorCheck:
    error = perf_event(_HARDWARE, _CYCLES)
    if error == 0:
        return GROUP("perf-counters", "ok", "hardware cycle counter opens")
    if error in (errno.EACCES, errno.EPERM):
        level = sysfs.text("/proc/sys/kernel/perf_event_paranoid")
        return GROUP(
            "perf-counters",
            "unknown",
            f"not allowed (perf_event_paranoid = {level})",
            mend=sudo("sysctl kernel.perf_event_paranoid=1"),
        )
    return GROUP(
        "perf-counters",
        "missing",
        f"no hardware counters: {os.strerror(error)}",
        "no IPC and no cache misses; cycles come from the TSC as always",
    )


def _btf() -> DoctorCheck:
    there = Path("/sys/kernel/btf/vmlinux").exists()
    return GROUP(
        "btf",
        "ok" if there else "limited",
        "kernel type information (BTF)" if there else "no BTF in this kernel",
        None if there else "BPF programs that follow a packet cannot be loaded",
    )


def _kprobes() -> DoctorCheck:
    """The type is a file of the PMU; whether it opens shows whether kprobes are allowed."""
    kind = sysfs.text("/sys/bus/event_source/devices/kprobe/type")
    if kind is None:
        return GROUP(
            "kprobes",
            "missing",
            "this kernel has no kprobes",
            "functions of the kernel cannot be traced; tracepoints can",
        )
    return GROUP(
        "kprobes",
        "ok" if root() else "unknown",
        "kprobes are built in" + ("" if root() else "; root only"),
    )
