# SPDX-License-Identifier: Apache-2.0
"""Interfaces that are in another network namespace for a while, or have another MAC address."""

from __future__ import annotations

import os
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.host.iproute2 import ip
from headrace.host.ledger import Ledger
from headrace.record.frozen import Record

_NAMESPACES = Path("/run/netns")
_NET = Path("/sys/class/net")
_IFF_UP = 1


class Moved(Record):
    """Where an interface was, and how."""

    interface: str
    namespace: str
    home: int  # inode of the namespace that it came from
    up: bool
    address: str
    ipv6_off: str | None  # sysctl disable_ipv6, which an interface that moves loses


def move(interface: str, namespace: str, ledger: Ledger) -> None:
    """Moves it into a named namespace; the ledger brings it back."""
    here = _NET / interface
    was = Moved(
        interface=interface,
        namespace=namespace,
        home=Path("/proc/self/ns/net").stat().st_ino,
        up=bool(int((here / "flags").read_text(), 16) & _IFF_UP),
        address=(here / "address").read_text().strip(),
        ipv6_off=off.read_text().strip() if (off := _ipv6_off(interface)).exists() else None,
    )
    ledger.note("moved", was.model_dump_json())
    ip("link", "set", "dev", interface, "netns", namespace)


def set_address(interface: str, mac: str, ledger: Ledger) -> None:
    """The ledger sets the one that it had."""
    had = (_NET / interface / "address").read_text().strip()
    if had != mac:
        ledger.note("address", f"{interface} {had}")
        ip("link", "set", "dev", interface, "address", mac)


def restore_address(text: str) -> bool:
    """False: the interface is gone."""
    interface, _, mac = text.partition(" ")
    if not (_NET / interface).exists():
        return False
    ip("link", "set", "dev", interface, "address", mac)
    return True


def bring_back(text: str) -> bool:
    """Moves it to where it came from, as it was. False: it is not in that namespace any more."""
    was = Moved.model_validate_json(text)
    home = _named(was.home)
    if home is None or not (_NAMESPACES / was.namespace).exists():
        return False
    inside = ("-n", was.namespace, "link", "set", "dev", was.interface)
    try:
        ip(*inside, "down")
        ip(*inside, "address", was.address)
        ip(*inside, "netns", home)
    except HeadraceError:
        return False
    if home == str(os.getpid()):
        if was.ipv6_off is not None:
            _ipv6_off(was.interface).write_text(was.ipv6_off)
        if was.up:
            ip("link", "set", "dev", was.interface, "up")
    elif was.up and not home.isdigit():
        ip("-n", home, "link", "set", "dev", was.interface, "up")
    return True


def _ipv6_off(interface: str) -> Path:
    return Path(f"/proc/sys/net/ipv6/conf/{interface}/disable_ipv6")


def _named(inode: int) -> str | None:
    """A namespace as `ip link set netns` takes it: a process in it, or its name."""
    for number in (os.getpid(), 1):
        try:
            if Path(f"/proc/{number}/ns/net").stat().st_ino == inode:
                return str(number)
        except OSError:
            continue
    names = _NAMESPACES.iterdir() if _NAMESPACES.exists() else ()
    return next((one.name for one in names if one.stat().st_ino == inode), None)
