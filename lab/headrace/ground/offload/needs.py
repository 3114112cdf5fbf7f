# SPDX-License-Identifier: Apache-2.0
"""What a service of offloaded VNFs needs besides its spec: devices, and the daemons' own files."""

from __future__ import annotations

import ipaddress
import re
import shutil
import subprocess
from pathlib import Path

from headrace.engine.place import usable_cpus
from headrace.errors import BadInput
from headrace.ground.offload.asked import HOSTING
from headrace.ground.offload.daemons import check_frr, find_bird
from headrace.host.state import short_run, write
from headrace.spec.document import Document
from headrace.spec.offload import OffloadService, RouterVnf

_PCI = re.compile(r"^(?:pci:)?((?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(?:,|$)")
_VIRTUAL = re.compile(r"^(?:net|eth)_[a-z0-9_]+(?:,|$)")
_LOOPBACK = "lo"
_INTERFACE = re.compile(r",iface=([^,]+)")


def checked(spec: OffloadService, doc: Document) -> dict[str, Path]:
    """The configuration file of each VNF that has one, which its daemon itself has read."""
    cpus = usable_cpus()
    if spec.lcore is not None and spec.lcore not in cpus:
        raise doc.error(
            (*HOSTING, "lcore"),
            "no CPU of this process",
            value=spec.lcore,
            allowed=", ".join(map(str, cpus)),
        )
    _devices(spec, doc)
    _addresses(spec, doc)
    files = {}
    for name, vnf in spec.vnfs.items():
        if vnf.routing.config is not None:
            file = doc.resolve(vnf.routing.config)
            if not file.is_file():
                what = "is no file" if file.exists() else "no such file"
                raise doc.error((*HOSTING, "vnfs", name, "routing", "config"), f"{what}: {file}")
            files[name] = file
            _configuration(name, vnf, file, doc)
    return files


def _devices(spec: OffloadService, doc: Document) -> None:
    owners: dict[str, str] = {}
    for name, port in spec.ports.items():
        if port.device is None:
            continue
        where = (*HOSTING, "ports", name, "device")
        owner = owners.setdefault(_device(port.device, where, doc), name)
        if owner != name:
            raise doc.error(where, f"port {owner} has it, too", value=port.device)


def _device(device: str, where: tuple[str, ...], doc: Document) -> str:
    """What it stands for, however it is written: a PCI address, or the kernel's interface."""
    if pci := _PCI.match(device):
        full = pci[1] if pci[1].count(":") == 2 else f"0000:{pci[1]}"
        if not Path("/sys/bus/pci/devices", full).exists():
            raise doc.error(where, f"no PCI device {pci[1]} in this machine", value=device)
        return full
    if not _VIRTUAL.match(device):
        raise doc.error(
            where, "no name that DPDK has", value=device,
            allowed="a PCI address as 0000:01:00.0, or one as net_af_packet0,iface=NAME",
        )  # fmt: skip
    named = _INTERFACE.search(device)
    if named is None:
        return device
    if not Path("/sys/class/net", named[1]).exists():
        there = ", ".join(sorted(path.name for path in Path("/sys/class/net").iterdir()))
        raise doc.error(
            where, f"no interface {named[1]} in this namespace", value=device, allowed=there
        )
    return named[1]


def _addresses(spec: OffloadService, doc: Document) -> None:
    """A port is one link: an address on it is one station's (RFC 5227)."""
    owners: dict[tuple[str, str], str] = {}
    for name, vnf in spec.vnfs.items():
        for device, interface in vnf.interfaces.items():
            if device == _LOOPBACK:
                raise doc.error(
                    (*HOSTING, "vnfs", name, "interfaces", device),
                    "every namespace has one of its own",
                    value=device, allowed="another name",
                )  # fmt: skip
            here = f"{'.'.join(HOSTING)}.vnfs.{name}.interfaces.{device}"
            for address in interface.addresses:
                ip = str(ipaddress.ip_interface(address).ip)
                owner = owners.setdefault((interface.port, ip), here)
                if owner != here:
                    raise doc.error(
                        (*HOSTING, "vnfs", name, "interfaces", device, "addresses"),
                        f"{owner} has it on port {interface.port}, too", value=ip,
                    )  # fmt: skip


def _configuration(name: str, vnf: RouterVnf, file: Path, doc: Document) -> None:
    """The daemons read it without starting: `bird -p`, `vtysh -C`."""
    if vnf.routing.daemon == "frr":
        try:
            check_frr(vnf)
        except BadInput as error:
            raise doc.error((*HOSTING, "vnfs", name, "routing", "daemons"), str(error)) from None
        done = _read_by_vtysh(file)
    elif vnf.routing.daemon == "bird":
        done = _run([find_bird(name), "-p", "-c", str(file)])
    else:
        return
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no word"]
        raise doc.error(
            (*HOSTING, "vnfs", name, "routing", "config"),
            f"{vnf.routing.daemon} refuses {file}: {' '.join(lines[0].split())}",
        )


def _read_by_vtysh(file: Path) -> subprocess.CompletedProcess[str]:
    """vtysh also reads settings of its own, which only FRR's user may: it is given none."""
    with short_run() as state:
        write(state.path / "vtysh.conf", "")
        own = ["--config_dir", str(state.path)]
        return _run([shutil.which("vtysh") or "vtysh", *own, "-C", "-f", str(file)])


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=60, check=False
    )
