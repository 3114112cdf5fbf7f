# SPDX-License-Identifier: Apache-2.0
"""The host's engine and its VNFs, seen as one engine: what is read of them is one reading."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from headrace.engine.control import ControlLost
from headrace.engine.counts import EngineCounts, PaceCounts, VnfCounts, WorkerCounts
from headrace.engine.engine import SHARE_IDLE, SHARE_MEASURING, Engine, set_share
from headrace.engine.link_counts import PortCounts
from headrace.engine.plan_document import Plan
from headrace.errors import HeadraceError
from headrace.ground.hosted.arranged import Hosted
from headrace.ground.hosted.bridged import KernelBridge
from headrace.ground.hosted.container import Containers, VnfContainer, present
from headrace.ground.hosted.functions import NicFunctions
from headrace.ground.hosted.ovs_dpdk import OvsDpdk
from headrace.ground.hosted.parts import RUN, Vnf
from headrace.ground.hosted.ports import OnSwitch
from headrace.ground.hosted.process import VnfProcess
from headrace.ground.hosted.run_queue import run_queue
from headrace.ground.hosted.shares import weights_given
from headrace.ground.hosted.switch import Switch, SwitchCounts, as_port, with_counts
from headrace.ground.hosted.vm import Machines, VnfMachine
from headrace.ground.hosted.vm_appliance import VnfAppliance
from headrace.ground.hosted.vnf import HostedVnf, as_they_answer
from headrace.host import cgroups
from headrace.host.cpu_time import cpu_seconds
from headrace.host.ledger import Ledger
from headrace.host.own_cpus import cpu_sets, housekeeping
from headrace.host.state import RunState, dpdk_prefix
from headrace.spec.hosting import Hosting


class HostedEngine(Engine):
    """Leaving it ends the VNFs, then the host."""

    def __init__(self, binary: Path, plan: Plan, hosted: Hosted, state: RunState) -> None:
        self.vnfs: list[HostedVnf] = []
        self.notes: tuple[str, ...] = ()
        self.labels: tuple[str, ...] = ()
        self.emulated: str | None = None  # how, where the VNFs' CPUs are
        self.keeps = hosted.hosting.checkpoint is not None  # what VNFs write for the next ones
        self._count = len(hosted.vnfs)
        lcores = (*(s.cpus for s in plan.segments), *(c for v in hosted.vnfs for c in v.vcpus))
        self._lcores = {cpu for cpus in lcores for cpu in cpus}
        self._ledger = Ledger(state.path)
        self._group: cgroups.Cgroup | None = None
        self._nic: NicFunctions | None = None
        for vnf in hosted.vnfs:
            (state.path / vnf.folder).mkdir(exist_ok=True)  # links of the host have sockets there
        plan = plan.placed(RUN, str(state.path))
        enter: list[str] = []
        if hosted.nic is not None:
            self._nic = NicFunctions(hosted.nic, self._ledger)
            plan, enter = self._nic.fill_in(plan), self._nic.enter("")
        self.kept_by_drivers = 0 if hosted.switch is None else hosted.switch.kept
        self._switch: Switch | None = None
        try:
            if hosted.switch is not None:
                huge = bool(plan.engine.hugepages)
                self._switch = self._make_switch(hosted.switch, hosted.hosting, state.path, huge)
                enter = self._switch.enter("")
            super().__init__(binary, plan, state, enter)
        except BaseException:
            self._ledger.undo()
            raise
        try:
            self._group = self._make_group(hosted.hosting, state.path.name)
            make = self._maker(binary, hosted.hosting, state.path)
            self.vnfs = [make(vnf) for vnf in hosted.vnfs]
            for one, weight in zip(self.vnfs, weights_given(hosted), strict=True):
                one.weight = weight
            self._start(self.vnfs[0].at_once)
            self.wait_up()
        except BaseException:
            self.close()
            raise

    def _make_switch(self, on: OnSwitch, hosting: Hosting, run: Path, huge: bool) -> Switch:
        if on.network == "bridge":
            return KernelBridge(on.ports, self._ledger, taps=hosting.kind == "vm")
        return OvsDpdk(on, self._ledger, run, huge)

    def _make_group(self, hosting: Hosting, run: str) -> cgroups.Cgroup | None:
        """None, and a note that says why, where control groups are not to be had."""
        self._ledger.note("cgroup", cgroups.name_of(run))
        try:
            return cgroups.make(run)
        except HeadraceError as why:
            if hosting.kind in ("process", "vm") and hosting.limited:
                limits = f"deployment.hosting: {', '.join(hosting.held)}"
                raise HeadraceError(f"{limits}: not to be had here: {why}") from None
            self.notes += (f"VNFs are in no control group of their own: {why}",)
            return None

    def _maker(self, binary: Path, hosting: Hosting, run: Path) -> Callable[[Vnf], HostedVnf]:
        prefix = dpdk_prefix(run)
        if hosting.kind == "container":
            common = Containers(hosting, self._ledger, self._group, _say)
            apart = self._switch or self._nic
            within = apart.namespace_of if apart is not None else lambda _: None
            return lambda vnf: VnfContainer(common, vnf, run, prefix, within(vnf.name))
        if hosting.kind == "vm":
            return self._machines(hosting, run, prefix)
        return lambda vnf: self._as_process(binary, vnf, run, prefix, self._own_group(vnf, hosting))

    def _machines(self, hosting: Hosting, run: Path, prefix: str) -> Callable[[Vnf], HostedVnf]:
        apart = housekeeping(self._lcores, cpu_sets())
        common = Machines(hosting, self._count, self._ledger, self._nic is not None, apart)
        behind = self._switch or self._nic
        self.notes += common.notes
        self.labels, self.emulated = common.labels, common.accel.emulated

        def make(one: Vnf) -> HostedVnf:
            group = self._own_group(one, hosting)
            if one.appliance is not None:
                return VnfAppliance(common, one, one.appliance, run, prefix, group, behind)
            return VnfMachine(common, one, run, prefix, group, behind)

        return make

    def _as_process(
        self, binary: Path, vnf: Vnf, run: Path, prefix: str, group: cgroups.Cgroup | None
    ) -> VnfProcess:
        if self._nic is None:
            enter = [] if self._switch is None else self._switch.enter(vnf.name)
            return VnfProcess(binary, vnf, run, prefix, group, enter)
        plan = None if vnf.plan is None else self._nic.fill_in(vnf.plan)
        enter = self._nic.enter(vnf.name)
        return VnfProcess(binary, replace(vnf, plan=plan), run, prefix, group, enter)

    def _own_group(self, vnf: Vnf, hosting: Hosting) -> cgroups.Cgroup | None:
        if self._group is None:
            return None
        group = cgroups.make_inside(self._group, vnf.name)
        group.limit(hosting.cpus, hosting.memory_limit_mb)
        return group

    def _start(self, at_once: int) -> None:
        """Where lcores are shared those that are up step back until all are: pollers with nothing
        to do would have most of the time that the others need to start."""
        lcores = [cpu for one in self.vnfs for cpu in one.vnf.lcores]
        shared = len(set(lcores)) < len(lcores)
        for first in range(0, len(self.vnfs), at_once):
            some = self.vnfs[first : first + at_once]
            for one in some:
                one.start()
            for one in as_they_answer(some):
                one.connect()
                if shared:
                    one.step_back()
        for one in self.vnfs:
            one.weigh()
        self.notes += tuple(note for one in self.vnfs if (note := one.note))

    def wait_up(self) -> None:
        if self._switch is not None:
            self._switch.wait_up()
        if self._nic is not None or self._switch is not None:
            return  # a NIC's carriers were waited for before the engines started
        began = time.monotonic()
        while True:
            links = self.host_read().links
            up = {name for name, link in links.items() if getattr(link, "up", False)}
            down = [v for v in self.vnfs if not all(f.link in up for f in v.vnf.faces)]
            if not down:
                return
            for one in down:
                if not one.alive:
                    raise one.died()
                if time.monotonic() - began > one.link_s:
                    raise one.not_linked()
            time.sleep(0.02)

    @property
    def grouped(self) -> bool:
        """Whether each VNF is in a control group of its own."""
        return self._group is not None or isinstance(self.vnfs[0], VnfContainer)

    @property
    def pids(self) -> dict[str, int]:
        """The processes of the VNFs that run."""
        return {one.vnf.name: one.pid for one in self.vnfs if one.alive}

    @property
    def ovs(self) -> Path | None:
        """The run directory of an Open vSwitch of ours."""
        return None if self._switch is None else self._switch.directory

    @property
    def bridge(self) -> tuple[str, str | None] | None:
        """The kernel's bridge between the VNFs, and its namespace."""
        if self._switch is None or self._switch.bridge is None:
            return None
        return self._switch.bridge, self._switch.bridge_in

    @contextlib.contextmanager
    def measuring(self) -> Iterator[None]:
        """All alike: a VNF with a smaller share than its host would be the host's bottleneck."""
        self._share(SHARE_MEASURING)
        try:
            with super().measuring():
                yield
        finally:
            self._share(SHARE_IDLE)

    def _share(self, nice: int) -> None:
        for pid in {} if self._switch is None else self._switch.pids.values():
            set_share(pid, nice)
        if self._group is not None:
            self._group.share(nice)
            return
        for pid in self.pids.values():
            set_share(pid, nice)

    def left(self) -> list[str]:
        """What is still there of it once it is closed, its files and sockets apart."""
        names = [one.name for one in self.vnfs if isinstance(one, VnfContainer)]
        folders = self._group.folders if self._group is not None else ()
        return [*present(names), *(str(folder) for folder in folders if folder.exists())]

    def host_read(self) -> EngineCounts:
        """The host alone: VNFs may be dead."""
        return super().read()

    def exposed(self) -> Mapping[str, str]:
        with self.turn:
            own = {
                one.vnf.name: one.control.request("prometheus")["text"]
                for one in self.vnfs
                if one.control is not None
            }
            return {**super().exposed(), **own}

    def read(self) -> EngineCounts:
        with self.turn:
            return self._with_vnfs(super().read())

    def _with_vnfs(self, host: EngineCounts) -> EngineCounts:
        """Asked all at once: while sixty pollers share a CPU each answer takes its time."""
        for vnf in self.vnfs:
            if (why := vnf.gone()) is not None:
                raise why
        alive = [vnf for vnf in self.vnfs if vnf.control is not None]
        try:
            for vnf in alive:
                assert vnf.control is not None
                vnf.control.send("read")
            readings = {vnf.vnf.name: (vnf, vnf.read()) for vnf in alive}
        except ControlLost:
            time.sleep(0.2)
            for vnf in alive:
                if not vnf.alive:
                    raise vnf.died() from None
            raise
        counts = {} if self._switch is None else self._switch.counts()
        host = self._with_devices("", host, counts)
        segments, links, workers = dict(host.segments), dict(host.links), dict(host.workers)
        for name, (vnf, own) in readings.items():
            segments |= own.segments
            own = self._with_devices(name, own, counts)
            links |= {f"{name}:{face.name}": own.links[face.name] for face in vnf.vnf.faces}
            for cpu, worker in own.workers.items():
                workers[cpu] = _beside(workers.get(cpu), worker)
        links |= self._of_appliances(counts)
        update = {"segments": segments, "links": links, "workers": workers}
        vnfs = {
            one.vnf.name: _clocks_of(one, readings[one.vnf.name][1] if one in alive else None)
            for one in self.vnfs
            if one.alive
        }
        return host.model_copy(update={**update, "vnfs": vnfs})

    def _of_appliances(
        self, counts: Mapping[tuple[str, str], SwitchCounts]
    ) -> dict[str, PortCounts]:
        return {
            f"{one.vnf.name}:{face.name}": as_port(face.mac, counts[key])
            for one in self.vnfs
            if one.vnf.appliance is not None
            for face in one.vnf.faces
            if (key := (one.vnf.name, face.name)) in counts
        }

    def _with_devices(
        self, owner: str, read: EngineCounts, counts: dict[tuple[str, str], SwitchCounts]
    ) -> EngineCounts:
        read = with_counts(read, owner, counts)
        return read if self._nic is None else self._nic.with_counts(owner, read)

    def close(self) -> None:
        for vnf in self.vnfs:
            vnf.ask_to_quit()
        for vnf in self.vnfs:
            vnf.close()
        super().close()
        self._ledger.undo()


def _clocks_of(one: HostedVnf, own: EngineCounts | None) -> VnfCounts:
    """What this machine says of a VNF's process, and what its engine says, if it has one."""
    weighed = one.weight is not None  # else nobody asks for it, and each look is two files more
    return VnfCounts(
        cpus=one.vnf.lcores,
        links=tuple(face.link for face in one.vnf.faces),
        opaque=one.vnf.appliance is not None,
        run_queue=run_queue(one.pid, one.worker),
        throttled_ns=cgroups.throttled_ns(one.pid),
        cpu_ns=round(1e9 * (cpu_seconds(one.pid) or 0)) if weighed else 0,
        weight=cgroups.weight_of(one.pid) if weighed else None,
        workers=own.workers if own else {},
        tsc_hz=own.tsc_hz if own else 0,
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _beside(there: WorkerCounts | None, worker: WorkerCounts) -> WorkerCounts:
    """VNFs that share a CPU are one worker of it: busy together, present as long as the longest.
    A VNF's pace is among its own clocks, and no engine knows of others' time of sending."""
    if there is None:
        return worker.model_copy(update={"pace": PaceCounts(), "sending": None})
    update = {
        "ref_cycles": max(there.ref_cycles, worker.ref_cycles),
        "ops_cycles": there.ops_cycles + worker.ops_cycles,
        "segments": (*there.segments, *worker.segments),
        "sending": None,
    }
    return there.model_copy(update=update)
