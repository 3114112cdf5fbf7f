# SPDX-License-Identifier: Apache-2.0
"""Containers and virtual machines: whether they run, found by running one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from headrace.doctor.check import CheckGroup, DoctorCheck, apt, root, run, sudo
from headrace.host.state import short_run

GROUP = CheckGroup("hosting")
_GUEST_S = 3.0
_QEMU_S, _LINUX_S = 10.0, 20.0
# A boot sector: mov al, 42; mov dx, 0xf4; out dx, al; hlt. QEMU's isa-debug-exit device turns
# the byte into exit status 2 * 42 + 1.
_BOOT = bytes([0xB0, 42, 0xBA, 0xF4, 0x00, 0xEE, 0xF4]).ljust(510, b"\0") + b"\x55\xaa"
_BOOTED = 2 * 42 + 1
_SLOW = "virtual machines run emulated (TCG): functional figures only, labelled so"


def checks() -> Iterator[DoctorCheck]:
    yield _kvm()
    yield _podman()
    yield from _docker()


def _kvm() -> DoctorCheck:
    if not Path("/dev/kvm").exists():
        return GROUP("kvm", "missing", "no /dev/kvm", _SLOW)
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        mend = sudo(f"usermod -aG kvm {os.environ.get('USER', 'USER')}")
        return GROUP("kvm", "limited", "/dev/kvm may not be opened by this user", _SLOW, mend)
    why = _tiny_guest()
    if why:
        return GROUP("kvm", "missing", f"/dev/kvm is there and a guest does not run: {why}", _SLOW)
    firmware = _firmware()
    if firmware is None:
        tried = "a guest of five bytes ran; a whole one was not tried, for lack of QEMU"
        return GROUP("kvm", "unknown", tried, _SLOW, apt("qemu-system-x86"))
    if firmware:
        why = f"/dev/kvm is there and QEMU's firmware does not run: {firmware}"
        return GROUP("kvm", "missing", why, _SLOW)
    kernel = _own_kernel()
    if kernel is None:
        tried = "QEMU's firmware ran; no kernel in /boot to try a Linux guest with"
        return GROUP("kvm", "unknown", tried, _SLOW)
    linux = _linux(kernel)
    if linux:
        why = f"/dev/kvm is there and a Linux guest does not run: {linux}"
        return GROUP("kvm", "missing", why, _SLOW)
    return GROUP("kvm", "ok", f"a guest booted {kernel.name} under KVM")


def _tiny_guest() -> str | None:
    """None when it ran; otherwise why not."""
    command = [sys.executable, "-m", "headrace.doctor.kvm_guest"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_GUEST_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it hung for {_GUEST_S:.0f} s"
    if done.returncode == 0:
        return None
    return (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]


def _qemu(seconds: float, *arguments: str) -> tuple[int | None, str] | None:
    """Exit status (None: it was ended after that time) and output; None when there is no QEMU.

    `-cpu host` as for real guests: some hosts offer a KVM that refuses its own CPU's registers.
    """
    options = "-accel kvm -cpu host -display none -nodefaults -no-reboot"
    command = ["qemu-system-x86_64", *options.split(), *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=seconds, stdin=subprocess.DEVNULL, check=False
        )
    except FileNotFoundError:
        return None
    except subprocess.TimeoutExpired as e:
        return None, _text(e.stdout)
    return done.returncode, _text(done.stdout) + _text(done.stderr)


def _text(output: bytes | None) -> str:
    return (output or b"").decode(errors="replace")


def _why(status: int | None, output: str, seconds: float) -> str:
    if status is None:
        return f"it hung for {seconds:.0f} s"
    return (output.strip().splitlines() or [f"exit status {status}"])[0]


def _firmware() -> str | None:
    """A boot sector: "" when it ran, otherwise why not; None when there is no QEMU."""
    with short_run() as state:
        disk = state.path / "boot.img"
        disk.write_bytes(_BOOT)
        drive = f"file={disk},format=raw,if=ide"
        exits = "isa-debug-exit,iobase=0xf4,iosize=1"
        ended = _qemu(_QEMU_S, "-m", "64", "-device", exits, "-drive", drive)
    if ended is None:
        return None
    return "" if ended[0] == _BOOTED else _why(*ended, _QEMU_S)


def _own_kernel() -> Path | None:
    kernels = sorted(Path("/boot").glob("vmlinuz-*"))
    return next((k for k in reversed(kernels) if os.access(k, os.R_OK)), None)


def _linux(kernel: Path) -> str:
    """Without a root file system it panics, and so ends: that is success. "" when it did."""
    booted = ("-kernel", str(kernel), "-append", "console=ttyS0 panic=-1", "-serial", "stdio")
    ended = _qemu(_LINUX_S, "-m", "512", *booted)
    if ended is None:
        return "QEMU is gone"
    return "" if ended[0] == 0 and "Kernel panic" in ended[1] else _why(*ended, _LINUX_S)


def _podman() -> DoctorCheck:
    done = run(["podman", "info", "--format", "{{.Host.OCIRuntime.Name}} {{.Version.Version}}"], 20)
    if done is None:
        return GROUP(
            "podman", "missing", "podman is not installed", "no VNFs in containers", apt("podman")
        )
    if done.returncode != 0:
        why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        return GROUP("podman", "limited", f"podman does not work: {why}", "no VNFs in containers")
    runtime, _, version = done.stdout.strip().partition(" ")
    return GROUP(
        "podman",
        "ok" if root() else "limited",
        f"podman {version} with {runtime}",
        None if root() else "rootless containers cannot be given interfaces",
    )


def _docker() -> Iterator[DoctorCheck]:
    """It is taken instead of podman, where it is; without it nothing is missing."""
    done = run(["docker", "version", "--format", "{{.Server.Version}}"], 20)
    if done is None:
        return
    why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    yield GROUP(
        "docker",
        "ok" if done.returncode == 0 and root() else "limited",
        f"docker {done.stdout.strip()}"
        if done.returncode == 0
        else f"docker is installed and its daemon does not answer: {why}",
        None if done.returncode == 0 and root() else "VNFs in containers need podman",
    )
