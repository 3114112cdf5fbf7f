# SPDX-License-Identifier: Apache-2.0
"""SR-IOV: virtual functions of a NIC moved into the containers; the NIC's own switch joins them.

Each LAN is a VLAN that the NIC puts on and takes off by itself, so the containers see none of it.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import BadInput, HeadraceError
from headrace.testbed.containers.fabric import Fabric, Port
from headrace.testbed.containers.layout import Interface
from headrace.testbed.containers.ledger import Ledger

NETWORKS = Path("/sys/class/net")
_VLAN_BASE = 3000
_APPEAR_S = 10.0
_TIMEOUT_S = 30


@dataclass(frozen=True)
class Pf:
    """A physical function: a NIC's interface that can have virtual functions."""

    name: str
    total: int
    made: int

    @property
    def device(self) -> Path:
        return NETWORKS / self.name / "device"

    def vf_name(self, index: int) -> str | None:
        """The kernel's name of a virtual function's interface, where it is in this namespace."""
        found = sorted((self.device / f"virtfn{index}" / "net").glob("*"))
        return found[0].name if found else None


def physical_functions(networks: Path = NETWORKS) -> list[Pf]:
    found = []
    for interface in sorted(networks.glob("*")):
        try:
            total = int((interface / "device" / "sriov_totalvfs").read_text())
            made = int((interface / "device" / "sriov_numvfs").read_text())
        except (OSError, ValueError):
            continue
        if total:
            found.append(Pf(interface.name, total, made))
    return found


def choose(wanted: str | None, needed: int, networks: Path = NETWORKS) -> Pf:
    """The NIC that a study is deployed on; bad input when there is none that can."""
    pfs = physical_functions(networks)
    if wanted is not None and wanted not in [pf.name for pf in pfs]:
        names = ", ".join(pf.name for pf in pfs) or "none here"
        raise BadInput(
            f"deployment.pf: got {wanted!r}; allowed: a NIC with SR-IOV functions ({names})"
        )
    usable = [pf for pf in pfs if wanted in (None, pf.name)]
    if not usable:
        raise BadInput(
            "deployment.network: got 'sriov'; this machine has no NIC with SR-IOV functions "
            "(`headrace doctor` says what it has); allowed here: bridge, ovs, macvlan"
        )
    for pf in usable:
        if needed <= (pf.made or pf.total):
            return pf
    most = max(pf.made or pf.total for pf in usable)
    raise BadInput(
        f"deployment.network: got 'sriov'; a chain needs {needed} virtual functions; allowed: as "
        f"many as a NIC here has ({most})"
    )


class Sriov(Fabric):
    """Virtual functions are taken in order; when the NIC had none, they are made and removed."""

    def __init__(self, tag: str, ledger: Ledger, pf: Pf) -> None:
        super().__init__(tag, ledger)
        self.pf = pf
        if not pf.made:
            ledger.note("vfs", pf.name)
            (pf.device / "sriov_numvfs").write_text(str(pf.total))

    def add_lan(self, lan: int) -> None:
        """A LAN is a VLAN id."""

    def attach(self, namespace: str, interface: Interface) -> Port:
        number = self._next()
        index = number - 1
        name = _appear(lambda: self.pf.vf_name(index))
        if name is None:
            raise HeadraceError(f"{self.pf.name}: its virtual function {index} has no interface")
        self.ledger.note("vf", f"{self.pf.name}:{index}:{name}")
        ip("link", "set", "dev", self.pf.name, "up")
        # Its own driver first: once the physical function has set the address it may not.
        ip("link", "set", "dev", name, "down")
        ip("link", "set", "dev", name, "address", interface.mac)
        ip("link", "set", "dev", self.pf.name, "vf", str(index), "mac", interface.mac,
           "vlan", str(_VLAN_BASE + interface.lan), "spoofchk", "off")  # fmt: skip
        ip("link", "set", "dev", name, "netns", namespace, "name", interface.device)
        return Port(interface.lan, "", interface.mac, number)

    def mirror(self, ports: list[Port], namespace: str, name: str) -> None:
        raise AssertionError("refused before: the NIC gives no copies")


def no_mirror(network: str) -> BadInput:
    return BadInput(
        f"deployment.network: got {network!r} with a leaf VNF; it has no point where a "
        "copy of the traffic could be taken; allowed with leaf VNFs: bridge, ovs"
    )


def give_back(name: str) -> bool:
    """A virtual function, PF:INDEX:NAME, as it was before; its namespace is gone by now."""
    pf_name, index, original = name.split(":", 2)
    pf = next((pf for pf in physical_functions() if pf.name == pf_name), None)
    if pf is None:
        return False
    current = _appear(lambda: pf.vf_name(int(index)))
    try:
        ip("link", "set", "dev", pf.name, "vf", index, "vlan", "0", "spoofchk", "on")
        if current is not None and current != original:
            ip("link", "set", "dev", current, "down")
            ip("link", "set", "dev", current, "name", original)
    except HeadraceError:
        return False
    return True


def remove_functions(pf_name: str) -> bool:
    """Those that a run has made."""
    try:
        (NETWORKS / pf_name / "device" / "sriov_numvfs").write_text("0")
    except OSError:
        return False
    return True


def _appear(look: Callable[[], str | None]) -> str | None:
    """Interfaces come, and come back from a namespace that has ended, a moment later."""
    deadline = time.monotonic() + _APPEAR_S
    while (found := look()) is None and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def ip(*arguments: str) -> None:
    tool = shutil.which("ip") or "/sbin/ip"
    try:
        done = subprocess.run(
            [tool, *arguments], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except OSError:
        raise HeadraceError("ip: not found; install it (`apt-get install iproute2`)") from None
    if done.returncode:
        words = (done.stderr.strip() or "failed").splitlines()[0]
        raise HeadraceError(f"ip {' '.join(arguments[:4])}: {words}")
