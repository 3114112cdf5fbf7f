# SPDX-License-Identifier: Apache-2.0
"""perf_event counters of one CPU each, by the system call itself."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import subprocess
from pathlib import Path

_SYSCALL = {"x86_64": 298, "aarch64": 241}.get(platform.machine())
_ATTR_BYTES = 128
_CLOSE_ON_EXEC = 8  # PERF_FLAG_FD_CLOEXEC
# PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING: for multiplexed counters
_READ_FORMAT = 1 | 2

HARDWARE, SOFTWARE, TRACEPOINT, RAW = 0, 1, 2, 4
CYCLES, INSTRUCTIONS, CACHE_REFERENCES, CACHE_MISSES = 0, 1, 2, 3
CPU_CLOCK = 0  # a software event: there without a PMU

_WHY = {
    errno.ENOENT: "this machine (or virtual machine) has no PMU",
    errno.EOPNOTSUPP: "this machine (or virtual machine) has no PMU",
    errno.ENODEV: "this machine (or virtual machine) has no PMU",
    errno.EACCES: "not permitted: needs CAP_PERFMON, or kernel.perf_event_paranoid <= 0",
    errno.EPERM: "not permitted: needs CAP_PERFMON, or kernel.perf_event_paranoid <= 0",
    errno.ENOSYS: "this kernel has no perf_event",
}


class PerfRefused(Exception):
    """Why a counter does not open."""


class PerfCounter:
    """One event on one CPU, all processes."""

    def __init__(self, kind: int, config: int, cpu: int) -> None:
        if _SYSCALL is None:
            raise PerfRefused(f"not known how on {platform.machine()}")
        attr = bytearray(_ATTR_BYTES)
        struct.pack_into("<IIQ", attr, 0, kind, _ATTR_BYTES, config)
        struct.pack_into("<Q", attr, 32, _READ_FORMAT)
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.syscall(
            ctypes.c_long(_SYSCALL),
            (ctypes.c_char * _ATTR_BYTES).from_buffer(attr),
            -1,
            cpu,
            -1,
            ctypes.c_ulong(_CLOSE_ON_EXEC),
        )
        if self._fd < 0:
            code = ctypes.get_errno()
            raise PerfRefused(_WHY.get(code, os.strerror(code)))

    def read(self) -> float:
        """Scaled up for the time that the PMU counted something else."""
        value, enabled, running = struct.unpack("<QQQ", os.read(self._fd, 24))
        return float(value * enabled / running) if running else 0.0

    def close(self) -> None:
        os.close(self._fd)


_TRACEFS = Path("/sys/kernel/tracing")
# Where it is not mounted, for the one who asks alone and gone with it.
_MOUNTED = 'mount -t tracefs tracefs "$0" && cat "$1"'


def tracepoint(name: str) -> int:
    """The number of a tracepoint, GROUP/NAME."""
    file = _TRACEFS / "events" / name / "id"
    try:
        return int(file.read_text())
    except OSError:
        pass
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", _MOUNTED, str(_TRACEFS), str(file)],
        capture_output=True, text=True, errors="replace", timeout=10, check=False,
    )  # fmt: skip
    if done.returncode:
        raise PerfRefused(f"tracefs does not show the tracepoint {name} here")
    return int(done.stdout)
