# SPDX-License-Identifier: Apache-2.0
"""What tests of real placement and real SR-IOV need: two NUMA nodes and a NIC with virtual
functions, here or in a QEMU guest that has both."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

from headrace.doctor.check import CheckGroup, DoctorCheck, apt, root, run
from headrace.host.server import detect

GROUP = CheckGroup("hosting")
_DEVICE = "igb"  # QEMU's Intel 82576, with SR-IOV; since QEMU 8.0
_TOOLS = {"busybox": "busybox", "cpio": "cpio", "modprobe": "kmod", "apt-get": "apt"}


def checks() -> Iterator[DoctorCheck]:
    yield _numa()
    yield _guest()


def _numa() -> DoctorCheck:
    nodes = detect().nodes
    shown = f"{len(nodes)} NUMA node{'s' if len(nodes) > 1 else ''}"
    if len(nodes) > 1:
        return GROUP("numa", "ok", shown)
    return GROUP(
        "numa",
        "limited",
        shown,
        "`placement: worst` has no remote node; `make test-vm-placement` tries it in a guest",
    )


def _guest() -> DoctorCheck:
    """What is needed for `make test-vm-sriov` and `make test-vm-placement`."""
    missing = [package for tool, package in _TOOLS.items() if shutil.which(tool) is None]
    qemu = os.environ.get("HEADRACE_QEMU", "qemu-system-x86_64")
    has_device = _has_device(qemu)
    fetches = not has_device and "HEADRACE_QEMU" not in os.environ
    if fetches and shutil.which("mmdebstrap") is None:
        missing.append("mmdebstrap")
    if missing:
        return GROUP(
            "guests",
            "missing",
            f"not installed: {', '.join(missing)}",
            "no tests of SR-IOV and of two NUMA nodes in a QEMU guest",
            apt(*missing),
        )
    if not has_device and not fetches:
        there = f"HEADRACE_QEMU: {qemu} has no device {_DEVICE} (QEMU 8.0 and later have)"
        return GROUP("guests", "missing", there)
    if not root():
        return GROUP(
            "guests",
            "limited",
            f"{qemu} for guests with SR-IOV and two NUMA nodes",
            "those guests read this machine's files, as root",
        )
    if fetches:
        return GROUP(
            "guests",
            "limited",
            f"no QEMU with the device {_DEVICE} is installed",
            "`make test-vm-sriov` fetches the distribution's backport of one, once",
        )
    there = f"{qemu} has the device {_DEVICE}: guests with SR-IOV and two NUMA nodes"
    return GROUP("guests", "ok", there)


def _has_device(qemu: str) -> bool:
    done = run([qemu, "-device", f"{_DEVICE},help"])
    return done is not None and done.stdout.startswith(f"{_DEVICE} options")
