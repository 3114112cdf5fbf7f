# SPDX-License-Identifier: Apache-2.0
"""vhost-net: the kernel's threads that move packets between a TAP and a virtual machine."""

from __future__ import annotations

import os
from pathlib import Path

DEVICE = Path("/dev/vhost-net")
VHOST = r"vhost-\d+"  # what its threads are called, by who opened the device
_PROC = Path("/proc")


def no_vhost_net() -> str | None:
    """Why the kernel cannot move a guest's packets here."""
    if not DEVICE.exists():
        return f"there is no {DEVICE} (`modprobe vhost_net`)"
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        return f"{DEVICE} may not be opened by this user"
    return None


def vhost_threads(pid: int, proc: Path = _PROC) -> list[Path]:
    """Those that are not among the process's own threads, as they are since Linux 6.4
    (vhost_task_create): the kernel's, which keep no affinity of whoever opened the device."""
    name = f"vhost-{pid}"
    return [folder for folder in sorted(proc.glob("[0-9]*")) if _called(folder) == name]


def _called(folder: Path) -> str:
    try:
        return (folder / "comm").read_text().strip()
    except OSError:
        return ""
