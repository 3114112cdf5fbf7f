# SPDX-License-Identifier: Apache-2.0
"""What a study asks of this machine, found out before anything is made on it."""

from __future__ import annotations

import os
from pathlib import Path

from headrace.errors import BadInput, HeadraceError
from headrace.ground.appliances.expanded import Expanded, GraphPoint, tester_lcore
from headrace.ground.appliances.forwarding import LIMITED, reservable
from headrace.ground.appliances.graph import Supply
from headrace.ground.appliances.sriov import no_mirror
from headrace.host.cpu_time import listed
from headrace.host.openvswitch import find_tool
from headrace.host.programs import find_engine
from headrace.host.sriov import choose_nic
from headrace.spec.workload import Packets

VNFS = "deployment.hosting.vnfs"
_STATUS = Path("/proc/self/status")
# linux/capability.h, by number
_CAPABILITIES = (
    "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE "
    "NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO "
    "SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME "
    "SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG "
    "WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE"
)


def check(expanded: Expanded) -> None:
    """The first thing that this machine cannot do, named."""
    for point in expanded.points:
        _network(point, expanded)
        check_kernel(point)
    for supply in {id(s): s for point in expanded.points for s in point.supplies.values()}.values():
        check_supply(supply)
    for workload in expanded.study.workload:
        if isinstance(workload, Packets):
            find_engine()
            _lcore(tester_lcore(expanded.study))


def _network(point: GraphPoint, expanded: Expanded) -> None:
    if point.network in ("macvlan", "sriov") and point.layout.of_kind("leaf"):
        raise no_mirror(point.network)
    if point.network == "sriov":
        choose_nic(expanded.hosting.pf, point.layout.ports)
    if point.network == "ovs":
        find_tool("ovs-vswitchd")


def check_kernel(point: GraphPoint) -> None:
    """What `cpus` and `cpuset` mean where the kernel forwards for a VNF: see `forwarding`."""
    reserved = 0.0
    for node in point.layout.of_kind("routed"):
        supply = point.supplies[node.vnf]
        given = supply.allocation
        if not supply.definition.in_kernel or (given.cpus is None and given.cpuset is None):
            continue
        key = "cpus" if given.cpus is not None else "cpuset"
        place, forwards = f"{VNFS}.{node.vnf}.{key}", f"the kernel forwards for {node.vnf}"
        if point.network not in LIMITED:
            raise BadInput(
                f"{place}: {forwards}, and on {point.network} not in threads of its own; allowed "
                f"with deployment.hosting.network: {', '.join(LIMITED)}"
            )
        if given.cpus is not None and given.cpuset is not None:
            raise BadInput(
                f"{VNFS}.{node.vnf}.cpuset: {forwards}, in threads whose time is limited "
                "(SCHED_DEADLINE), and the kernel binds no such thread to some CPUs only; allowed: "
                "`cpus` or `cpuset`"
            )
        reserved += given.cpus or 0.0
        most = reservable()
        if reserved > most:
            raise BadInput(
                f"{place}: {forwards}, in threads whose time is limited (SCHED_DEADLINE); those of "
                f"{point.name} ask for {reserved:g} CPUs together; allowed: at most {most:g} here "
                "(kernel.sched_rt_runtime_us of each kernel.sched_rt_period_us)"
            )


def check_supply(supply: Supply) -> None:
    name = supply.definition.name
    granted = capabilities(_STATUS.read_text())
    for capability in supply.capabilities:
        if capability not in granted:
            raise HeadraceError(
                f"VNF {name}: needs the capability CAP_{capability}, which this machine does not "
                "grant (capabilities(7): not in the bounding set of this process)"
            )
    for device in supply.definition.devices:
        if not Path(device).exists():
            raise HeadraceError(f"VNF {name}: needs the device {device}, which is not here")
    quota, all_ = supply.allocation.cpus, os.cpu_count() or 1
    if quota is not None and quota > all_:
        raise BadInput(
            f"{VNFS}.{name}.cpus: got {quota:g}; allowed: at most {all_}, all that is here"
        )
    cpuset = supply.allocation.cpuset
    if cpuset is not None:
        here = os.sched_getaffinity(0)
        missing = sorted(set(listed(cpuset)) - here)
        if missing:
            allowed = ",".join(map(str, sorted(here)))
            raise BadInput(
                f"{VNFS}.{name}.cpuset: got {cpuset!r}; there is no CPU {missing[0]}; allowed: "
                f"CPUs of {allowed}"
            )


def _lcore(lcore: int) -> None:
    here = sorted(os.sched_getaffinity(0))
    if lcore not in here:
        raise BadInput(
            f"deployment.lcores.traffic: got {lcore}; allowed: one of {', '.join(map(str, here))}"
        )


def capabilities(status: str) -> set[str]:
    """Names in the bounding set, by /proc/PID/status: no container can have others."""
    line = next(line for line in status.splitlines() if line.startswith("CapBnd:"))
    mask = int(line.split()[1], 16)
    return {name for bit, name in enumerate(_CAPABILITIES.split()) if mask >> bit & 1}
