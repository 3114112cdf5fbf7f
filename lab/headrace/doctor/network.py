# SPDX-License-Identifier: Apache-2.0
"""NICs, their drivers, and the kernel's ways for packets to and from user space."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from headrace.doctor.check import CheckGroup, DoctorCheck, apt, root, run, sudo
from headrace.host.server import sysfs
from headrace.host.sriov import physical_functions

GROUP = CheckGroup("network")
_AF_XDP = 44
_NETWORK_CLASS = "0x02"  # PCI base class
# These are bifurcated: DPDK polls them while the kernel's driver stays, by their interfaces.
_SHARED = ("mlx5_core", "mlx4_core")
_POLLED = ("vfio-pci", "igb_uio", "uio_pci_generic", *_SHARED)


def checks() -> Iterator[DoctorCheck]:
    nics = _pci_nics()
    yield _nics(nics)
    yield _iommu(bool(nics))
    yield _sriov()
    yield _af_xdp()
    yield _namespaces()
    yield _tun()


class ExaminedNic(NamedTuple):
    address: str
    driver: str
    interfaces: tuple[str, ...]
    speed: str
    in_use: bool  # by the kernel: binding it elsewhere could cut this machine off
    elsewhere: bool  # a network driver has it, and no interface of it is in this namespace

    def __str__(self) -> str:
        names = ", ".join(self.interfaces) or "no interface"
        return f"{self.address} {names} ({self.driver}, {self.speed})"


def _pci_nics(devices: Path = Path("/sys/bus/pci/devices")) -> list[ExaminedNic]:
    nics = []
    for device in sorted(devices.glob("*")):
        if not (sysfs.text(device / "class") or "").startswith(_NETWORK_CLASS):
            continue
        driver = (device / "driver").resolve().name if (device / "driver").exists() else "none"
        # A virtio NIC's interface hangs below its virtio device.
        links = sorted([*device.glob("net/*"), *device.glob("virtio*/net/*")])
        speed = sysfs.text(links[0] / "speed") if links else None
        # In a container sysfs has the host's devices, and not their interfaces.
        elsewhere = not links and (driver in _SHARED or driver not in ("none", *_POLLED))
        nics.append(
            ExaminedNic(
                address=device.name,
                driver=driver,
                interfaces=tuple(link.name for link in links),
                speed=f"{speed} Mbit/s" if speed and speed not in ("-1", "0") else "speed unknown",
                in_use=elsewhere or any(sysfs.text(link / "operstate") == "up" for link in links),
                elsewhere=elsewhere,
            )
        )
    return nics


def _nics(nics: list[ExaminedNic]) -> DoctorCheck:
    if not nics:
        means = "packets travel over rings, memif, vhost, veth or pcap; no wire is measured"
        return GROUP("nics", "limited", "no physical NIC", means)
    shown = "; ".join(map(str, nics))
    if any(n.driver in _POLLED and not n.elsewhere for n in nics):
        return GROUP("nics", "ok", shown)
    idle = [n for n in nics if not n.in_use]
    if not idle:
        means = "all are in use by the kernel; none is free for DPDK"
        if any(n.elsewhere for n in nics):
            means += " (one without an interface here may have it in another network namespace)"
        return GROUP("nics", "limited", shown, means)
    mend = sudo(f"dpdk-devbind.py --bind=vfio-pci {idle[-1].address}")
    return GROUP("nics", "limited", shown, "none is bound to a driver that DPDK polls", mend)


def _iommu(any_nic: bool) -> DoctorCheck:
    groups = len(list(Path("/sys/kernel/iommu_groups").glob("*")))
    vfio = Path("/dev/vfio/vfio").exists()
    if groups and vfio:
        return GROUP("vfio", "ok", f"vfio with {groups} IOMMU groups")
    state = f"{groups} IOMMU groups, vfio {'there' if vfio else 'not loaded'}"
    means = "NICs and SR-IOV functions cannot be given to DPDK or to virtual machines"
    if not any_nic:
        means += "; there is none here"
    virtual = "hypervisor" in (sysfs.text("/proc/cpuinfo") or "").split()
    if not any_nic or (virtual and not groups):
        return GROUP("vfio", "limited", state, means)
    mend = (
        sudo("modprobe vfio-pci")
        if groups
        else ("add intel_iommu=on iommu=pt (or amd_iommu=on) to the kernel command line, reboot")
    )
    return GROUP("vfio", "limited", state, means, mend)


def _sriov() -> DoctorCheck:
    pfs = physical_functions()
    if pfs:
        there = "; ".join(f"{pf.name}: {pf.total} functions, {pf.enabled} made" for pf in pfs)
        return GROUP("sriov", "ok", there)
    return GROUP(
        "sriov",
        "limited",
        "no NIC with SR-IOV functions",
        "`network: sriov` is refused (`make test-vm-sriov` tries it in a guest); VNFs are "
        "joined by veb, vepa, bridge, ovs or macvlan",
    )


def _af_xdp() -> DoctorCheck:
    """Tries it: the socket family exists only when the kernel was built with it."""
    try:
        socket.socket(_AF_XDP, socket.SOCK_RAW, 0).close()
    except PermissionError:
        # sudo does not look into an environment of Python's.
        mend = "sudo $(command -v headrace) doctor"
        return GROUP("af_xdp", "unknown", "only root may open AF_XDP sockets", mend=mend)
    except OSError as e:
        return GROUP(
            "af_xdp",
            "missing",
            f"no AF_XDP: {e.strerror}",
            "kernel interfaces are reached by AF_PACKET, at a higher cost",
        )
    return GROUP("af_xdp", "ok", "AF_XDP sockets open")


def _namespaces() -> DoctorCheck:
    """A veth pair in a namespace of its own, gone when the command ends."""
    command = ["unshare", "-n", "ip", "link", "add", "hr0", "type", "veth", "peer", "name", "hr1"]
    if not root():
        command[1:2] = ["-r", "-n"]
    done = run(command)
    if done is not None and done.returncode == 0:
        return GROUP("namespaces", "ok", "network namespaces with veth")
    why = "ip or unshare is not installed" if done is None else done.stderr.strip()
    return GROUP(
        "namespaces",
        "limited",
        f"no veth in a new namespace: {why.splitlines()[0] if why else 'refused'}",
        "chains over kernel interfaces cannot be tried here",
        apt("iproute2") if done is None else None,
    )


def _tun() -> DoctorCheck:
    there = os.access("/dev/net/tun", os.R_OK | os.W_OK)
    return GROUP(
        "tun",
        "ok" if there else "limited",
        "TUN/TAP devices" if there else "/dev/net/tun cannot be opened",
        None if there else "no TAP links",
        None if there else sudo("modprobe tun"),
    )
