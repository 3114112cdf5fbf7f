# SPDX-License-Identifier: Apache-2.0
"""QEMU's command line for one VNF."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headrace.ground.hosted.vm_image import slot

# A frame leaves a guest as it came: no checksums or segments left for somebody behind the switch.
_NO_OFFLOADS = (
    "csum=off,guest_csum=off,gso=off,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off,"
    "host_tso4=off,host_tso6=off,host_ecn=off,host_ufo=off"
)
_TAP_SENT_MOST = 256  # a larger queue of a guest's frames QEMU has for vhost-user alone
_SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"


@dataclass(frozen=True)
class Linux:
    """A kernel that is started without a boot loader."""

    kernel: Path
    initrd: Path | None
    arguments: str


@dataclass(frozen=True)
class Disk:
    image: Path
    format: str


@dataclass(frozen=True)
class GuestNic:
    mac: str
    socket: Path  # vhost-user: the host's engine listens there, or else the machine does
    listens: bool = False
    tap: int | None = None  # instead of it: the descriptor of a TAP
    vhost: bool = False  # the kernel moves the TAP's packets, not QEMU
    vhostfd: int | None = None  # the descriptor of vhost-net
    function: str | None = None  # instead of all: the PCI address of one that vfio-pci has


_CONTROL, _MANAGEMENT, _DISK = 0x2, 0x1E, 0x1D  # slots on the PCI bus; interfaces are in between


@dataclass(frozen=True)
class GuestMachine:
    name: str
    accel: str
    vcpus: int
    memory_mb: int
    boot: Linux | None
    nics: tuple[GuestNic, ...]
    queue: int  # of a network device, each way
    console: Path
    disk: Disk | None = None
    hugepages: bool = False
    page_kb: int | None = None  # their size; None: the kernel's default one
    node: int | None = None  # of the host, that the memory is to be on
    control: int | None = None  # a connected socket's descriptor
    forwards: tuple[tuple[int, int], ...] = ()  # TCP ports: this machine's, the guest's
    told: tuple[tuple[str, str], ...] = ()  # what an image may read from its firmware
    scratch: Path | None = None  # for what is written to its disk
    sets: tuple[str, ...] = ()  # files that it is given open


def command(qemu: Path, m: GuestMachine) -> list[str]:
    """vhost-user needs memory that another process can map: one file for all of it."""
    return [
        str(qemu), "-name", f"{m.name},debug-threads=on", "-nodefaults", "-no-user-config",
        "-display", "none", "-no-reboot", "-sandbox", _SANDBOX,
        *(word for one in m.sets for word in ("-add-fd", one)),
        "-machine", "q35,memory-backend=ram,usb=off,vmport=off", *_iommu(m),
        *_accel(m.accel), "-smp", str(m.vcpus), "-m", str(m.memory_mb), "-object", _memory(m),
        *_boot(m.boot), *_disk(m.disk), "-serial", f"file:{m.console}",
        *_control(m.control), *_network(m), *_management(m.forwards), *_told(m.told),
    ]  # fmt: skip


def _accel(name: str) -> list[str]:
    if name == "kvm":
        return ["-accel", "kvm", "-cpu", "host"]
    return ["-accel", "tcg,thread=multi,tb-size=128", "-cpu", "max"]


def _iommu(m: GuestMachine) -> list[str]:
    """The guest's, for vfio-pci in there (distributions' kernels have no other way); QEMU maps what
    the guest maps. It has to come before the devices."""
    if not any(nic.function for nic in m.nics):
        return []
    return ["-device", "intel-iommu,intremap=off,caching-mode=on"]


def _memory(m: GuestMachine) -> str:
    parts = [f"memory-backend-memfd,id=ram,size={m.memory_mb}M,share=on"]
    if m.hugepages:
        parts.append("hugetlb=on,prealloc=on")
        if m.page_kb is not None:
            parts.append(f"hugetlbsize={m.page_kb}K")
    if m.node is not None:
        parts.append(f"host-nodes={m.node},policy=bind")
    return ",".join(parts)


def _boot(boot: Linux | None) -> list[str]:
    if boot is None:
        return []
    initrd = [] if boot.initrd is None else ["-initrd", str(boot.initrd)]
    return ["-kernel", str(boot.kernel), *initrd, "-append", boot.arguments]


def _disk(disk: Disk | None) -> list[str]:
    """A snapshot: the user's image stays as it is."""
    if disk is None:
        return []
    drive = f"id=disk,if=none,snapshot=on,cache=unsafe,format={disk.format}"
    return ["-drive", f"{drive},file={_quoted(disk.image)}",
            "-device", f"virtio-blk-pci,drive=disk,addr={_DISK:#x}"]  # fmt: skip


def _quoted(path: Path) -> str:
    """QEMU's options end at a comma; two are one."""
    return str(path).replace(",", ",,")


def _control(descriptor: int | None) -> list[str]:
    if descriptor is None:
        return []
    return ["-device", f"virtio-serial-pci,addr={_CONTROL:#x}", "-chardev",
            f"socket,id=control,fd={descriptor}", "-device",
            "virtserialport,chardev=control,nr=1,name=headrace.control"]  # fmt: skip


def _network(m: GuestMachine) -> list[str]:
    # Emulated, QEMU 7.2 ends by SIGSEGV when a guest's kernel sets up MSI-X of a vhost device.
    interrupts = ",vectors=0" if m.accel == "tcg" else ""
    words = []
    for i, nic in enumerate(m.nics):
        if nic.function is not None:
            words += ["-device", f"vfio-pci,host={nic.function},addr={slot(i):#x},romfile="]
            continue
        words += _back_end(i, nic)
        sent = m.queue if nic.tap is None else min(m.queue, _TAP_SENT_MOST)
        device = f"virtio-net-pci,netdev=n{i},mac={nic.mac},addr={slot(i):#x},romfile=,"
        device += f"rx_queue_size={m.queue},tx_queue_size={sent},{_NO_OFFLOADS}{interrupts}"
        words += ["-device", device]
    return words


def _back_end(i: int, nic: GuestNic) -> list[str]:
    if nic.tap is not None:
        vhost = f"on,vhostfd={nic.vhostfd}" if nic.vhost else "off"
        return ["-netdev", f"tap,id=n{i},fd={nic.tap},vhost={vhost}"]
    server = ",server=on" if nic.listens else ""
    chardev = f"socket,id=c{i},path={_quoted(nic.socket)}{server}"
    return ["-chardev", chardev, "-netdev", f"vhost-user,id=n{i},chardev=c{i},queues=1"]


def _management(forwards: tuple[tuple[int, int], ...]) -> list[str]:
    if not forwards:
        return []
    rules = "".join(f",hostfwd=tcp:127.0.0.1:{here}-:{there}" for here, there in forwards)
    return ["-netdev", f"user,id=management,restrict=on{rules}", "-device",
            f"virtio-net-pci,netdev=management,addr={_MANAGEMENT:#x},romfile="]  # fmt: skip


def _told(told: tuple[tuple[str, str], ...]) -> list[str]:
    return [word for key, value in told
            for word in ("-fw_cfg", f"name=opt/headrace/{key},string={value}")]  # fmt: skip
