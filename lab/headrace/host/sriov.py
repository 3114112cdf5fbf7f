# SPDX-License-Identifier: Apache-2.0
"""SR-IOV: virtual functions of a NIC, made, handed out, taken back.

Which NICs can is what `headrace server detect` finds. What is changed is in the run's ledger
before it is done: functions that a run made are removed, others go back as they were.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import BadInput, HeadraceError
from headrace.host.iproute2 import ip, ip_each
from headrace.host.ledger import Kind, Ledger
from headrace.host.server.nics import nics
from headrace.host.server.sysfs import link_name, number, text

_PCI = Path("sys/bus/pci")
_APPEAR_S = 10.0
VFIO = "vfio-pci"


@dataclass(frozen=True)
class Pf:
    """A physical function: a NIC's interface that can have virtual functions."""

    name: str
    address: str  # of PCI
    total: int
    enabled: int
    node: int | None  # NUMA; None: the firmware does not say
    root: Path = Path("/")

    @property
    def device(self) -> Path:
        return self.root / _PCI / "devices" / self.address

    def vf_address(self, index: int) -> str | None:
        return link_name(self.device / f"virtfn{index}")

    def vf_name(self, index: int) -> str | None:
        """The kernel's name of a virtual function's interface, where it is in this namespace."""
        devices = sorted((self.device / f"virtfn{index}" / "net").glob("*"))
        return devices[0].name if devices else None


def physical_functions(root: Path = Path("/")) -> list[Pf]:
    """NICs that can have virtual functions and that the kernel's driver has."""
    return [
        Pf(nic.interfaces[0], nic.address, nic.vfs_max, len(nic.vfs), nic.node, root)
        for nic in nics(root)
        if nic.vfs_max and nic.interfaces
    ]


def choose_nic(
    wanted: str | None, needed: int, root: Path = Path("/"), instead: str = "bridge, ovs, macvlan"
) -> Pf:
    """The NIC that a study is deployed on; bad input when there is none that can. `instead`: the
    networks that need none."""
    return _one_of(physical_functions(root), wanted, needed, instead)


def _one_of(pfs: Sequence[Pf], wanted: str | None, needed: int, instead: str) -> Pf:
    if wanted is not None and wanted not in [pf.name for pf in pfs]:
        names = ", ".join(pf.name for pf in pfs) or "none here"
        raise BadInput(
            f"deployment.pf: got {wanted!r}; allowed: a NIC with SR-IOV functions ({names})"
        )
    usable = [pf for pf in pfs if wanted in (None, pf.name)]
    if not usable:
        raise BadInput(
            "deployment.network: got 'sriov'; this machine has no NIC with SR-IOV functions "
            f"(`headrace doctor` says what it has); allowed here: {instead}"
        )
    for pf in usable:
        if needed <= (pf.enabled or pf.total):
            return pf
    most = max(pf.enabled or pf.total for pf in usable)
    raise BadInput(
        f"deployment.network: got 'sriov'; a chain needs {needed} virtual functions; allowed: as "
        f"many as a NIC here has ({most})"
    )


def choose_nics(
    wanted: Sequence[str],
    needed: int,
    root: Path = Path("/"),
    instead: str = "bridge, ovs, macvlan",
) -> list[Pf]:
    """The NIC of each of so many functions: several that are named have as many as they can, one
    after the other. Without names it is the first NIC that has enough."""
    if len(wanted) < 2:
        return [choose_nic(next(iter(wanted), None), needed, root, instead)] * needed
    pfs = physical_functions(root)
    each = [
        pf
        for name in wanted
        for pf in [_one_of(pfs, name, 1, instead)]
        for _ in range(pf.enabled or pf.total)
    ]
    if len(each) < needed:
        raise BadInput(
            f"deployment.pf: got {', '.join(wanted)}; a chain needs {needed} virtual functions; "
            f"allowed: as many as they have ({len(each)})"
        )
    return each[:needed]


Command = tuple[str, ...]  # of ip(8)


class Functions:
    """Virtual functions of one NIC, handed out in order; made where it had none. Commands are for
    `ip_each`, together with those of other functions."""

    def __init__(self, pf: Pf, needed: int, ledger: Ledger) -> None:
        self.pf, self._ledger = pf, ledger
        self._next = 0
        self._indices: dict[str, int] = {}  # by address
        # Virtual functions talk to the physical one, which answers only while it is up.
        if not _is_up(pf.name):
            ledger.note("up", pf.name)
            ip("link", "set", "dev", pf.name, "up")
        if pf.enabled:
            return
        ledger.note("vfs", pf.name)
        try:
            (pf.device / "sriov_numvfs").write_text(str(needed))
        except OSError as error:
            raise HeadraceError(
                f"{pf.name}: {needed} virtual functions cannot be made: {error.strerror}"
            ) from None

    def _take(self) -> int:
        self._next += 1
        return self._next - 1

    def _note(self, kind: Kind, name: str) -> None:
        """What is to be undone of one function: nothing where all of them go with the run."""
        if self.pf.enabled:
            self._ledger.note(kind, name)

    def moving(self, namespace: str, device: str, mac: str, vlan: int = 0) -> list[Command]:
        """How the next one's interface goes into a namespace, under the name `device`."""
        index, pf = self._take(), self.pf
        name = _appear(lambda: pf.vf_name(index))
        if name is None:
            raise HeadraceError(
                f"{pf.name}: its virtual function {index} ({pf.vf_address(index) or 'not there'}) "
                "has no interface: is its driver loaded, or has somebody taken it?"
            )
        self._note("vf", f"{pf.name}:{index}:{name}")
        # Its own driver first: once the physical function has set the address it may not.
        return [
            ("link", "set", "dev", name, "down"),
            ("link", "set", "dev", name, "address", mac),
            self._addressed(index, mac, vlan),
            ("link", "set", "dev", name, "netns", namespace, "name", device),
        ]

    def addressing(self, mac: str) -> tuple[str, Command]:
        """The PCI address of the next one, and how it gets its MAC address."""
        index, pf = self._take(), self.pf
        address = _appear(lambda: pf.vf_address(index))
        if address is None:
            raise HeadraceError(f"{pf.name}: its virtual function {index} is not there")
        return address, self._addressed(index, mac, 0)

    def bind(self, address: str) -> None:
        """Gives one to vfio-pci: a driver in user space gets it."""
        root = self.pf.root / _PCI
        drivers, device = root / "drivers", root / "devices" / address
        if not (drivers / VFIO).exists():
            raise HeadraceError(f"{VFIO}: this driver is not loaded (`modprobe {VFIO}`)")
        if not (device / "iommu_group").exists():
            raise HeadraceError(
                f"{address}: has no IOMMU group, so {VFIO} cannot have it; allowed: another `vf`, "
                "or a kernel started with its IOMMU on (intel_iommu=on)"
            )
        self._note("vfio", address)
        rebind(device, VFIO)

    def hold_to(self, mbps_of: Mapping[str, int]) -> None:
        """Lets the functions of these addresses send so many Mbit/s and no more."""
        name, before = self.pf.name, _max_tx_rates(self.pf.name)
        wanted = {self._indices[mac]: mbps for mac, mbps in mbps_of.items()}
        for index in wanted:
            self._note("vf-rate", f"{name}:{index}:{before.get(index, 0)}")
        try:
            ip_each([_rate(name, index, mbps) for index, mbps in wanted.items()])
        except HeadraceError as error:
            raise HeadraceError(
                f"{name}: keeps a virtual function to no rate (rate_cap_gbps): {error}"
            ) from None
        kept = _max_tx_rates(name)
        for index, mbps in wanted.items():
            if kept.get(index, 0) != mbps:
                raise HeadraceError(
                    f"{name}: keeps virtual function {index} to {kept.get(index, 0)} Mbit/s, and "
                    f"not to the {mbps} of its rate_cap_gbps"
                )

    def _addressed(self, index: int, mac: str, vlan: int) -> Command:
        self._indices[mac] = index
        own = "link", "set", "dev", self.pf.name, "vf", str(index), "mac", mac
        return (*own, "vlan", str(vlan), "spoofchk", "off" if vlan else "on")


def rebind(device: Path, driver: str) -> None:
    """Give a PCI function to a driver; to "", back to the one that the kernel would choose."""
    try:
        (device / "driver_override").write_text(f"{driver}\n")
        if (device / "driver").exists():
            (device / "driver" / "unbind").write_text(device.name)
        (device.parent.parent / "drivers_probe").write_text(device.name)
    except OSError as error:
        to = driver or "its own driver"
        raise HeadraceError(f"{device.name}: cannot go to {to}: {error.strerror}") from None


def no_vfio(root: Path = Path("/")) -> str | None:
    """Why no function can be given to a program or a virtual machine."""
    if not (root / _PCI / "drivers" / VFIO).exists():
        return f"the driver {VFIO} is not loaded (`modprobe {VFIO}`)"
    if not any((root / "sys/kernel/iommu_groups").glob("*")):
        return "this kernel has no IOMMU on (intel_iommu=on, amd_iommu=on)"
    return None


def give_back(name: str) -> bool:
    """A virtual function, PF:INDEX:NAME, as it was before; its namespace is gone by now."""
    pf_name, index, original = name.split(":", 2)
    address = link_name(Path("/sys/class/net") / pf_name / "device")
    if address is None:
        return False
    pf = Pf(pf_name, address, total=0, enabled=0, node=None)
    current = _appear(lambda: pf.vf_name(int(index)))
    commands: list[Command] = [
        ("link", "set", "dev", pf_name, "vf", index, "vlan", "0", "spoofchk", "on")
    ]
    if current is not None and current != original:
        commands.append(("link", "set", "dev", current, "down"))
        commands.append(("link", "set", "dev", current, "name", original))
    try:
        ip_each(commands)
    except HeadraceError:
        return False
    return True


def restore_rate(name: str) -> bool:
    """A virtual function's, PF:INDEX:MBPS, as it was before; with its function it is gone."""
    pf, index, mbps = name.split(":")
    try:
        if _max_tx_rates(pf).get(int(index), 0) == int(mbps):
            return False
        ip(*_rate(pf, int(index), int(mbps)))
    except HeadraceError:
        return False
    return True


def _rate(pf: str, index: int, mbps: int) -> Command:
    """How a function is held to a rate; 0: to none."""
    return "link", "set", "dev", pf, "vf", str(index), "max_tx_rate", str(mbps)


def _max_tx_rates(pf: str) -> dict[int, int]:
    """In Mbit/s, by function; 0: none."""
    shown = json.loads(ip("-json", "-details", "link", "show", "dev", pf))
    every = shown[0].get("vfinfo_list", ())
    return {vf["vf"]: int(vf.get("rate", {}).get("max_tx", 0)) for vf in every}


def unbind(address: str) -> bool:
    """A virtual function that vfio-pci had, back to the kernel."""
    device = Path("/") / _PCI / "devices" / address
    if text(device / "driver_override") != VFIO:
        return False
    try:
        rebind(device, "")
    except HeadraceError:
        return False
    return True


def remove_functions(pf_name: str) -> bool:
    """Those that a run has made."""
    file = Path("/sys/class/net") / pf_name / "device" / "sriov_numvfs"
    if not number(file):
        return False
    try:
        file.write_text("0")
    except OSError:
        return False
    return True


def take_down(pf_name: str) -> bool:
    """A NIC's interface that a run brought up."""
    if not _is_up(pf_name):
        return False
    try:
        ip("link", "set", "dev", pf_name, "down")
    except HeadraceError:
        return False
    return True


def _is_up(name: str) -> bool:
    """IFF_UP (netdevice(7)) is the lowest bit."""
    return bool((number(Path("/sys/class/net") / name / "flags") or 0) & 1)


def _appear(look: Callable[[], str | None]) -> str | None:
    """Interfaces come, and come back from a namespace that has ended, a moment later."""
    deadline = time.monotonic() + _APPEAR_S
    while (device := look()) is None and time.monotonic() < deadline:
        time.sleep(0.05)
    return device
