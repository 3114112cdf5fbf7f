# SPDX-License-Identifier: Apache-2.0
"""KVM where a guest runs under it, emulation (TCG) where none does: found by trying."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from headrace.errors import HeadraceError
from headrace.ground.hosted.vm_kernel import Kernel, cache_folder, find_kernel

_TRIAL_S = 15.0
_KVM = Path("/dev/kvm")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_QEMU = "qemu-system-x86_64"


@dataclass(frozen=True)
class Accel:
    name: Literal["kvm", "tcg"]
    why: str = ""  # it is not KVM

    @property
    def emulated(self) -> str | None:
        """How, if it is: such figures are never to be taken for a server's."""
        return None if self.name == "kvm" else f"QEMU's TCG, {self.why}"


def find_qemu() -> Path:
    named = shutil.which(_QEMU)
    if named is None:
        raise HeadraceError(
            f"{_QEMU}: not found; run `scripts/setup.sh vm` or install qemu-system-x86"
        )
    return Path(named)


@cache
def qemu_version(qemu: Path) -> str:
    done = subprocess.run([qemu, "--version"], capture_output=True, errors="replace", check=False)
    return (done.stdout.splitlines() or ["unknown version"])[0]


def choose_accel(wanted: Literal["auto", "kvm", "tcg"], kernel: Kernel) -> Accel:
    if wanted == "tcg":
        return Accel("tcg", "as the spec asks")
    problem = kvm_problem(kernel)
    if problem is None:
        return Accel("kvm")
    if wanted == "kvm":
        raise HeadraceError(f"deployment.hosting.vm.accel: kvm, but {problem}; allowed: tcg, auto")
    return Accel("tcg", problem)


def no_kvm() -> str | None:
    """Why virtual machines are emulated here, or cannot be started at all."""
    try:
        find_qemu()
        return kvm_problem(find_kernel())
    except HeadraceError as why:
        return str(why)


def kvm_problem(kernel: Kernel) -> str | None:
    """Why no guest runs under KVM here. Tried once after each start of the machine: a KVM that
    hangs ordinary guests is found out by waiting."""
    if not _KVM.exists():
        return "there is no /dev/kvm"
    if not os.access(_KVM, os.R_OK | os.W_OK):
        return "/dev/kvm may not be opened by this user"
    qemu = find_qemu()
    key = [_BOOT_ID.read_text().strip(), qemu_version(qemu), str(kernel.image)]
    file = cache_folder() / "kvm.json"
    try:
        known = json.loads(file.read_text())
    except (OSError, json.JSONDecodeError):
        known = {}
    if known.get("key") != key:
        known = {"key": key, "problem": _try(qemu, kernel)}
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(known))
    problem: str | None = known["problem"]
    return problem


def _try(qemu: Path, kernel: Kernel) -> str | None:
    """Without a root file system Linux panics, and so ends: it ran."""
    command = [
        str(qemu), "-accel", "kvm", "-cpu", "host", "-machine", "q35", "-m", "256", "-nodefaults",
        "-no-user-config", "-display", "none", "-no-reboot", "-kernel", str(kernel.image),
        "-append", "console=ttyS0 panic=-1", "-serial", "stdio",
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=_TRIAL_S, stdin=subprocess.DEVNULL, check=False
        )
    except subprocess.TimeoutExpired:
        return f"a guest under KVM hung for {_TRIAL_S:g} s"
    if b"Kernel panic" in done.stdout:
        return None
    words = done.stderr.decode(errors="replace").strip().splitlines()
    return f"a guest under KVM ended: {words[0] if words else f'exit status {done.returncode}'}"
