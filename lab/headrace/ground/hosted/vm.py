# SPDX-License-Identifier: Apache-2.0
"""A VNF as a virtual machine: QEMU with a guest of our own, or with an image of the user's.

The guest's engine is asked over a virtio console port, at whose host end is one socket of a pair:
nothing of it is in the file system, and whoever is left at either end sees the other go.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from headrace.engine.control import Control
from headrace.engine.counts import EngineCounts
from headrace.errors import BadInput, HeadraceError
from headrace.ground.hosted import vm_image, vm_plan, vm_qemu
from headrace.ground.hosted.cpus import describe_cpu
from headrace.ground.hosted.functions import NicFunctions
from headrace.ground.hosted.parts import RUN, Face, Vnf
from headrace.ground.hosted.switch import Switch
from headrace.ground.hosted.vhost_net import no_vhost_net, vhost_threads
from headrace.ground.hosted.vm_accel import choose_accel, find_qemu, qemu_version
from headrace.ground.hosted.vm_confined import Handed, confined
from headrace.ground.hosted.vm_kernel import find_kernel
from headrace.ground.hosted.vnf import ChildVnf, last_words
from headrace.host import hugepages
from headrace.host.cgroups import Cgroup
from headrace.host.ledger import Ledger
from headrace.host.processes import ended_first
from headrace.host.tail import tail
from headrace.host.tool import printable
from headrace.spec.hosting import Hosting

_QUIT_S = 10.0
_POLL_S = 0.1
_GONE_S = 2.0
_NODES = Path("/sys/devices/system/node")
_MEMINFO = Path("/proc/meminfo")
_VCPU = re.compile(r"CPU (\d+)/(?:KVM|TCG)")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1bc|\r")


class Tools:
    """What machines are made of; HeadraceError says what is not there, and how to get it."""

    def __init__(self, hosting: Hosting, vnfs: int, functions: bool) -> None:
        """`functions`: of a NIC's, in the guests."""
        self.qemu = find_qemu()
        self.kernel = find_kernel()
        self.driver = vm_image.driver_of(self.kernel, "vfio" if functions else hosting.vm.driver)
        self.accel = choose_accel(hosting.vm.accel, self.kernel)
        self.engine = vm_image.guest_engine(self.accel.name)
        _check_memory(hosting, vnfs)


class Machines(Tools):
    """What those of a run have in common."""

    def __init__(
        self,
        hosting: Hosting,
        vnfs: int,
        ledger: Ledger,
        functions: bool,
        apart: frozenset[int] = frozenset(),
    ) -> None:
        """`apart`: CPUs for QEMU's threads that are no vCPU; where there are none, its vCPUs'."""
        super().__init__(hosting, vnfs, functions)
        self.hosting, self.ledger, self.apart = hosting, ledger, apart
        self.image = vm_image.build(self.engine, self.kernel, self.driver)
        self.vhost = self.accel.name == "kvm" and no_vhost_net() is None

    @property
    def notes(self) -> tuple[str, ...]:
        how = {
            "virtio": "DPDK's virtio driver",
            "vfio": "DPDK's driver of the NIC's functions",
            "af_packet": "the kernel's driver and AF_PACKET",
        }
        guests = f"guests: Linux {self.kernel.release}, {how[self.driver]}, {self.version}"
        if self.accel.emulated:
            return guests, f"guests are emulated ({self.accel.emulated}): functional figures only"
        return guests, "guests run under KVM"

    @property
    def labels(self) -> tuple[str, ...]:
        return f"accel-{self.accel.name}", f"guest-driver-{self.driver}"

    @property
    def version(self) -> str:
        return qemu_version(self.qemu)


def _check_memory(hosting: Hosting, vnfs: int) -> None:
    each, wanted = hosting.vm.memory_mb, vnfs * hosting.vm.memory_mb
    if not hosting.vm.hugepages:
        there = _available_mb()
        if wanted > there:
            raise BadInput(
                f"deployment.hosting.vm.memory_mb: got {each}; {vnfs} machines need {wanted} MB, "
                f"and {there} MB are available here; allowed: at most {there // vnfs}"
            )
        return
    asked, page_kb = str(hosting.vm.hugepages).lower(), hosting.vm.page_kb
    pages = hugepages.pool() if page_kb is None else hugepages.pool_of(page_kb)
    if pages is None or hugepages.lacking(wanted, pages):
        free = 0 if pages is None else pages.free * pages.page_kb // 1024
        raise BadInput(
            f"deployment.hosting.vm.hugepages: got {asked}; {vnfs} machines need {wanted} MB of "
            f"hugepages, and {free} MB are free; allowed: false, or add pages"
            + ("" if pages is None else f" to {pages.control}")
        )


def _available_mb() -> int:
    for line in _MEMINFO.read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) // 1024
    return 1 << 30


class VnfMachine(ChildVnf):
    at_once = 4

    def __init__(
        self,
        common: Machines,
        vnf: Vnf,
        run: Path,
        prefix: str,
        group: Cgroup | None,
        behind: Switch | NicFunctions | None,
    ) -> None:
        super().__init__(vnf, run, prefix, group)
        self._common, self._behind = common, behind
        self._console = self.folder / "console"
        self._stderr = self.folder / "qemu.stderr"
        self._initrd = self.folder / "initrd"
        self.vhost = common.vhost and isinstance(behind, Switch)
        self.worker = re.compile(rf"CPU {common.hosting.vm.vcpus - 1}/(?:KVM|TCG)")
        self._end: socket.socket | None = None

    def start(self) -> None:
        hosting, common = self._common.hosting, self._common
        shutil.copyfile(common.image, self._initrd)
        plan = self._guest_plan()
        vm_image.own_part(plan, self.vnf.files, self._initrd)
        vm_plan.check_room(self.vnf.name, hosting, self._initrd)
        boot = vm_qemu.Linux(
            common.kernel.image,
            self._initrd,
            vm_plan.arguments(hosting, common.driver, len(self.vnf.faces), common.accel.name),
        )
        self._end, theirs = socket.socketpair()
        with theirs:
            self._run_qemu(
                replace(self._machine(), boot=boot, control=theirs.fileno()), theirs.fileno()
            )

    def _machine(self) -> vm_qemu.GuestMachine:
        hosting, common = self._common.hosting, self._common
        return vm_qemu.GuestMachine(
            name=f"headrace-{self.vnf.name}",
            accel=common.accel.name,
            vcpus=hosting.vm.vcpus,
            memory_mb=hosting.vm.memory_mb,
            boot=None,
            nics=tuple(map(self._nic, self.vnf.faces)),
            queue=hosting.slots,
            console=self._console,
            hugepages=bool(hosting.vm.hugepages),
            page_kb=hosting.vm.page_kb,
            node=self._node(),
        )

    def _nic(self, face: Face) -> vm_qemu.GuestNic:
        tap = function = None
        if isinstance(self._behind, Switch):
            tap = self._behind.tap(self.vnf.name, face.name)
        elif self._behind is not None:
            function = self._behind.given_to(self.vnf.name, face.name)
        return vm_qemu.GuestNic(
            mac=face.mac,
            socket=Path(face.socket.replace(RUN, str(self._run))),
            listens=self.vnf.listens,
            tap=tap,
            vhost=tap is not None and self.vhost,
            function=function,
        )

    def _run_qemu(self, machine: vm_qemu.GuestMachine, *descriptors: int) -> None:
        handed = Handed()
        try:
            machine = handed.machine(machine, self.folder / "scratch")
            self._run_with(machine, *descriptors, *handed.descriptors)
        finally:  # QEMU has its own: when it ends, so does the port's carrier
            handed.close()

    def _run_with(self, machine: vm_qemu.GuestMachine, *descriptors: int) -> None:
        pidfile = self.folder / "pid"
        pidfile.unlink(missing_ok=True)
        # Not to outlive a lab that was killed, and found by `headrace clean` if it did.
        self._common.ledger.note("pidfile", str(pidfile))
        qemu = vm_qemu.command(self._common.qemu, machine)
        command = confined(qemu, machine, pidfile)
        if self._group is not None:
            command = self._group.enter(command)
        environment = {**os.environ, "TMPDIR": str(machine.scratch)}
        with self._stderr.open("wb") as stderr:
            # A session of its own: autogroup then gives each VNF the same share of a CPU.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr,
                start_new_session=True, pass_fds=descriptors, env=environment,
            )  # fmt: skip
        ended_first(self._process.pid)
        # Its threads to come are where the first one is: off the lcores of traffic.
        os.sched_setaffinity(self.pid, {cpu for cpus in self.vnf.vcpus for cpu in cpus})

    def _guest_plan(self) -> str:
        """Files stand where the plan says, in the guest, too."""
        hosting, common = self._common.hosting, self._common
        assert self.vnf.plan is not None
        return vm_plan.guest_plan(self.vnf, self.vnf.plan, hosting, common.driver).text

    def _node(self) -> int | None:
        """The host's NUMA node for its memory: that of its vCPUs, where there are several."""
        nodes = {describe_cpu(cpu).node for cpus in self.vnf.vcpus for cpu in cpus}
        several = len(list(_NODES.glob("node[0-9]*"))) > 1
        return nodes.pop() if several and len(nodes) == 1 else None

    def answers(self) -> bool:
        """Whoever opens its port has it, before anybody in the guest reads it."""
        return True

    def connect(self) -> None:
        """The port holds the question until somebody in the guest reads it."""
        assert self._end is not None
        control = Control(self._end)
        try:
            control.send("info")
            self._await(
                lambda: control.answered(_POLL_S), self._common.hosting.vm.boot, "no answer"
            )
            control.receive("info")
        except HeadraceError:
            control.close()
            if self._ended(_GONE_S):
                raise self.died() from None
            raise
        self.control = control
        self._initrd.unlink(missing_ok=True)
        self._pin()

    def _await(self, ready: Callable[[], bool], seconds: float, otherwise: str) -> None:
        deadline = time.monotonic() + seconds
        while not ready():
            if not self.alive:
                raise self.died()
            if time.monotonic() > deadline:
                raise HeadraceError(
                    f"{self.vnf.name}: {otherwise} from its guest after {seconds:g} s (`boot`); "
                    f"its console: {self._console_words()}"
                )

    def _pin(self) -> None:
        """Each vCPU where the placement says; the kernel's threads that move its packets where any
        of them may be; QEMU's other threads, its main loop among them, on CPUs that are apart.
        """
        anywhere = {cpu for cpus in self.vnf.vcpus for cpu in cpus}
        for thread in vhost_threads(self.pid) if self.vhost else ():
            with contextlib.suppress(OSError):
                os.sched_setaffinity(int(thread.name), anywhere)
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(OSError):
                vcpu = _VCPU.match((task / "comm").read_text())
                if vcpu:
                    os.sched_setaffinity(int(task.name), self.vnf.vcpus[int(vcpu[1])])
                elif apart := self._common.apart:
                    os.sched_setaffinity(int(task.name), apart)

    def _ended(self, within_s: float) -> bool:
        """Its sockets are closed a moment before it is gone."""
        self._wait(within_s)
        return not self.alive

    def died(self) -> HeadraceError:
        self._ended(_GONE_S)
        output = tail(self._stderr).strip()
        words = last_words(output) if output else f"its console: {self._console_words()}"
        return HeadraceError(f"{self.vnf.name}: its virtual machine ended ({self._how()}): {words}")

    def _said(self) -> str:
        try:
            return _ESCAPES.sub("", tail(self._console))
        except OSError:
            return ""

    def _console_words(self) -> str:
        """What the engine said, where it said anything."""
        text = self._said()
        engine = [line for line in text.splitlines() if line.startswith("headrace-engine: ")]
        if engine:
            return printable(engine[-1])
        return last_words(text) if text.strip() else "silent"

    def read(self) -> EngineCounts:
        """Its CPU is the lcore that its vCPU is on, as this machine numbers them."""
        reading, lcore = super().read(), self.vnf.lcores[0]
        segments = {
            name: tuple(one.model_copy(update={"cpu": lcore}) for one in replicas)
            for name, replicas in reading.segments.items()
        }
        [worker] = reading.workers.values()
        return reading.model_copy(update={"segments": segments, "workers": {lcore: worker}})

    def kill(self) -> None:
        self._kill()
        self._disconnect()
        if self._end is not None:
            self._end.close()
            self._end = None
        self._initrd.unlink(missing_ok=True)

    def _answers(self, within_s: float) -> bool:
        return self._end is not None and bool(select.select([self._end], [], [], within_s)[0])

    def close(self) -> None:
        """When the engine has said that it ends there is nothing left to be saved; a guest that
        stands still, as emulated ones were seen to, never says so."""
        if self.alive and self.control is not None and self._answers(_QUIT_S):
            with contextlib.suppress(HeadraceError):
                self.control.receive("quit")
        self._terminate(_QUIT_S)
        self.kill()
