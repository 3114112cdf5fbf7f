# SPDX-License-Identifier: Apache-2.0
"""QEMU without rights: it is given its files and sockets open, as its user could open none of them.

A guest that broke out of QEMU has a user that no other process and no file has, no capabilities,
no_new_privs and QEMU's own filter of system calls (`-sandbox`), which must not start programs.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.ground.hosted.vm_qemu import Disk, GuestMachine, GuestNic, Linux
from headrace.host.sockets import pinned_socket

_KVM, _VHOST = Path("/dev/kvm"), Path("/dev/vhost-net")
_UID = 0x78000000  # and the number of the process, as an engine's (engine/core/rights)
# The shell becomes setpriv, and that QEMU: one process, whose number is on the disk before it is
# anything else.
_START = 'echo $$ >"$1" || exit 1; shift; uid=$(($1 + $$)); shift; exec setpriv "$@"'
_USER = '--reuid "$uid" --regid "$uid"'


class Handed:
    """Descriptors for one QEMU. To be closed when it has started, and so has its own."""

    def __init__(self) -> None:
        self.descriptors: list[int] = []
        self._sets: list[str] = []

    def machine(self, m: GuestMachine, scratch: Path) -> GuestMachine:
        """The machine with every path of the host's replaced by a descriptor's. `scratch`: a folder
        for what its disks' snapshots take, which its user may write."""
        scratch.mkdir(exist_ok=True)
        scratch.chmod(0o777)  # nobody else gets to it: the run's folder is the lab's alone
        return replace(
            m,
            console=self._set(m.console, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
            boot=None if m.boot is None else self._boot(m.boot, scratch),
            disk=None if m.disk is None else Disk(self._set(m.disk.image), m.disk.format),
            nics=tuple(map(self._nic, m.nics)),
            scratch=self._again(scratch, os.O_DIRECTORY),
            sets=tuple(self._sets),
        )

    def _open(self, file: Path, flags: int) -> int:
        return self._keep(file, lambda: os.open(file, flags | os.O_CLOEXEC, 0o600))

    def _keep(self, file: Path, opened: Callable[[], int]) -> int:
        try:
            descriptor = opened()
        except OSError as error:
            raise HeadraceError(f"{file}: {(error.strerror or '').lower()}") from None
        self.descriptors.append(descriptor)
        return descriptor

    def _set(self, file: Path, flags: int = os.O_RDONLY) -> Path:
        """The set as QEMU's own code for files takes it (`-add-fd`)."""
        number = len(self._sets) + 1
        self._sets.append(f"fd={self._open(file, flags)},set={number}")
        return Path(f"/dev/fdset/{number}")

    def _again(self, file: Path, flags: int = os.O_RDONLY) -> Path:
        """Opened once more by whoever has it: the file's own mode must allow that."""
        return Path(f"/proc/self/fd/{self._open(file, flags)}")

    def _boot(self, boot: Linux, scratch: Path) -> Linux:
        initrd = None if boot.initrd is None else self._readable(boot.initrd, scratch / "initrd")
        return Linux(self._readable(boot.kernel, scratch / "kernel"), initrd, boot.arguments)

    def _readable(self, file: Path, copy: Path) -> Path:
        """A kernel may be for root's eyes only (Ubuntu)."""
        if file.exists() and not file.stat().st_mode & stat.S_IROTH:
            shutil.copyfile(file, copy)
            copy.chmod(0o444)
            file = copy
        return self._again(file)

    def _nic(self, nic: GuestNic) -> GuestNic:
        if nic.tap is not None:
            self.descriptors.append(nic.tap)
            return replace(nic, vhostfd=self._open(_VHOST, os.O_RDWR) if nic.vhost else None)
        if nic.function is not None or nic.listens:
            return nic
        # QEMU passes memory over no socket that it was given open: it connects by the descriptor
        # of the file, which is all that it has of the run's folder.
        number = self._keep(nic.socket, lambda: pinned_socket(nic.socket))
        pinned = Path(f"/proc/self/fd/{number}")
        pinned.chmod(0o666)
        return replace(nic, socket=pinned)

    def close(self) -> None:
        while self.descriptors:
            os.close(self.descriptors.pop())


def confined(qemu: Sequence[str], m: GuestMachine, pidfile: Path) -> list[str]:
    """The command that writes down its process and then is QEMU. One that maps memory for a NIC's
    function, or listens in the run's folder, stays the user whose the files there are."""
    functions = any(nic.function is not None for nic in m.nics)
    stays = functions or any(nic.listens for nic in m.nics)
    options, start = ["--no-new-privs", "--pdeathsig", "KILL"], _START
    if os.geteuid() == 0:
        keep = "-all,+ipc_lock" if functions else "-all"
        options += ["--bounding-set", keep, "--inh-caps", keep]
        if not stays:
            start = start.replace("setpriv", f"setpriv {_USER}")
            options += _groups(m)
    return ["sh", "-c", start, "sh", str(pidfile), str(_UID), *options, "--", *qemu]


def _groups(m: GuestMachine) -> list[str]:
    return ["--groups", str(_KVM.stat().st_gid)] if m.accel == "kvm" else ["--clear-groups"]
