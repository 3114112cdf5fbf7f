# SPDX-License-Identifier: Apache-2.0
"""Containers and virtual machines: whether they run, found by running one."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .check import Check, apt, root, run, sudo

GROUP = "hosting"
_GUEST_S = 3.0
_QEMU_S = 15.0
# A boot sector: mov al, 42; mov dx, 0xf4; out dx, al; hlt. QEMU's isa-debug-exit device turns
# the byte into exit status 2 * 42 + 1.
_BOOT = bytes([0xB0, 42, 0xBA, 0xF4, 0x00, 0xEE, 0xF4]).ljust(510, b"\0") + b"\x55\xaa"
_BOOTED = 2 * 42 + 1
_SLOW = "virtual machines run emulated (TCG): functional figures only, labelled so"


def checks() -> Iterator[Check]:
    yield _kvm()
    yield _podman()


def _kvm() -> Check:
    def made(status: str, found: str, means: str | None = _SLOW, mend: str | None = None) -> Check:
        return Check.model_validate(
            {
                "name": "kvm",
                "group": GROUP,
                "status": status,
                "found": found,
                "means": means,
                "mend": mend,
            }
        )

    if not Path("/dev/kvm").exists():
        return made("missing", "no /dev/kvm", mend=None)
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return made(
            "limited",
            "/dev/kvm may not be opened by this user",
            mend=sudo(f"usermod -aG kvm {os.environ.get('USER', 'USER')}"),
        )
    why = _tiny_guest()
    if why:
        return made("missing", f"/dev/kvm is there and a guest does not run: {why}")
    booted = boots("kvm")
    if booted is None:
        return made(
            "unknown",
            "a guest of five bytes ran; a whole one was not tried, for lack of QEMU",
            mend=apt("qemu-system-x86"),
        )
    if not booted:
        return made("missing", f"QEMU's firmware does not come up under KVM in {_QEMU_S:.0f} s")
    return made("ok", "a guest booted under KVM", means=None)


def _tiny_guest() -> str | None:
    """None when it ran; otherwise why not."""
    command = [sys.executable, "-m", "headrace.doctor.kvm_guest"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_GUEST_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it hung for {_GUEST_S:.0f} s"
    if done.returncode == 0:
        return None
    return (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]


def boots(accelerator: str) -> bool | None:
    """A firmware and a boot sector under QEMU; None when there is no QEMU."""
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        disk = Path(folder) / "boot.img"
        disk.write_bytes(_BOOT)
        command = [
            "qemu-system-x86_64",
            "-accel",
            accelerator,
            "-m",
            "64",
            "-display",
            "none",
            "-nodefaults",
            "-no-reboot",
            "-device",
            "isa-debug-exit,iobase=0xf4,iosize=1",
            "-drive",
            f"file={disk},format=raw,if=ide,readonly=off",
        ]
        try:
            done = subprocess.run(
                command, capture_output=True, timeout=_QEMU_S, stdin=subprocess.DEVNULL, check=False
            )
        except FileNotFoundError:
            return None
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == _BOOTED


def _podman() -> Check:
    done = run(["podman", "info", "--format", "{{.Host.OCIRuntime.Name}} {{.Version.Version}}"], 20)
    if done is None:
        return Check(
            name="podman",
            group=GROUP,
            status="missing",
            found="podman is not installed",
            means="no VNFs in containers",
            mend=apt("podman"),
        )
    if done.returncode != 0:
        why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        return Check(
            name="podman",
            group=GROUP,
            status="limited",
            found=f"podman does not work: {why}",
            means="no VNFs in containers",
        )
    runtime, _, version = done.stdout.strip().partition(" ")
    return Check(
        name="podman",
        group=GROUP,
        status="ok" if root() else "limited",
        found=f"podman {version} with {runtime}",
        means=None if root() else "rootless containers cannot be given interfaces",
    )
