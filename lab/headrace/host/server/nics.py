# SPDX-License-Identifier: Apache-2.0
"""Network devices: PCI functions, whatever driver has them, and other devices with interfaces."""

from __future__ import annotations

from pathlib import Path

from headrace.host.server.sysfs import link_name, number, numbered, text
from headrace.spec.server import Nic

_CLASS_NETWORK = 0x02  # PCI base class "network controller"


def nics(root: Path) -> tuple[Nic, ...]:
    devices = [_pci(device) for device in _functions(root / "sys/bus/pci/devices")]
    known = {name for nic in devices for name in nic.interfaces}
    for interface in sorted((root / "sys/class/net").glob("*")):
        device = interface / "device"
        # Without a device it is made of software: lo, veth, bridges.
        if interface.name not in known and device.exists():
            devices.append(_other(interface, device))
    return tuple(devices)


def _functions(folder: Path) -> list[Path]:
    return [
        device
        for device in sorted(folder.glob("*"))
        if (number(device / "class") or 0) >> 16 == _CLASS_NETWORK
    ]


def _pci(device: Path) -> Nic:
    names = _interfaces(device)
    return Nic(
        address=device.name,
        interfaces=names,
        driver=link_name(device / "driver"),
        vendor=text(device / "vendor"),
        device=text(device / "device"),
        node=_node(device),
        speed_mbps=_speed(device, names),
        queues=_queues(device, names),
        vfs_max=number(device / "sriov_totalvfs") or 0,
        vfs=tuple(
            name for _, path in numbered(device, "virtfn") if (name := link_name(path)) is not None
        ),
        physical_function=link_name(device / "physfn"),
    )


def _interfaces(device: Path) -> tuple[str, ...]:
    """virtio's interfaces belong to a device below the PCI function."""
    folders = [device / "net", *(d / "net" for d in sorted(device.glob("virtio*")))]
    return tuple(sorted(p.name for folder in folders for p in folder.glob("*")))


def _net(device: Path, name: str) -> Path:
    folders = [device / "net", *(d / "net" for d in device.glob("virtio*"))]
    return next((f / name for f in folders if (f / name).exists()), device / "net" / name)


def _node(device: Path) -> int | None:
    node = number(device / "numa_node")
    return node if node is not None and node >= 0 else None  # -1: the firmware does not say


def _speed(device: Path, names: tuple[str, ...]) -> int | None:
    for name in names:
        speed = number(_net(device, name) / "speed")
        if speed is not None and speed > 0:
            return speed
    return None


def _queues(device: Path, names: tuple[str, ...]) -> int | None:
    for name in names:
        queues = len(list((_net(device, name) / "queues").glob("rx-*")))
        if queues:
            return queues
    return None


def _other(interface: Path, device: Path) -> Nic:
    speed = number(interface / "speed")
    return Nic(
        address=link_name(device) or interface.name,
        interfaces=(interface.name,),
        driver=link_name(device / "driver"),
        vendor=text(device / "vendor"),
        device=text(device / "device"),
        node=_node(device),
        speed_mbps=speed if speed is not None and speed > 0 else None,
        queues=len(list((interface / "queues").glob("rx-*"))) or None,
        vfs_max=0,
        vfs=(),
        physical_function=None,
    )
