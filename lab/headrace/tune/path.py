# SPDX-License-Identifier: Apache-2.0
"""The path that advice is tried on: two stations of one server, joined by veth pairs and a bridge.

The bridge filters as a container host's does: bridge-netfilter is on, and a rule asks for the
connection's state, for which netfilter reassembles fragments and cuts them again (NfvInsight figure
19).
"""

from __future__ import annotations

import os
import shutil
import time
from functools import partial
from pathlib import Path
from socket import AF_INET, SOCK_DGRAM, socket

from headrace.errors import HeadraceError
from headrace.host import netlink, settings
from headrace.host.ledger import Ledger
from headrace.host.plumbing import make_namespace, within
from headrace.record.frozen import Record

BRIDGE = "br0"
_ROLES = ("server", "a", "b")
_DISCARD = 9  # RFC 863
_NAMESPACES = Path("/run/netns")
BRIDGE_NF = "/proc/sys/net/bridge/bridge-nf-call-iptables"


class Station(Record):
    """A container's place: its namespace, its device, and the bridge's port that leads there."""

    namespace: str  # as a path
    device: str
    mac: str
    address: str
    port: str  # the host's end, in the bridge's namespace


class ServerPath(Record):
    namespace: str  # of the bridge, as a path; "" is this one
    own: bool = False  # the user's, not made for the purpose
    bridge: str
    sender: Station
    receiver: Station

    @property
    def stations(self) -> tuple[Station, Station]:
        return self.sender, self.receiver

    def devices(self) -> list[tuple[str, str]]:
        """All of the path: (namespace, device)."""
        ends = [(s.namespace, s.device) for s in self.stations]
        return [*ends, *self.ports(), (self.namespace, self.bridge)]

    def ports(self) -> list[tuple[str, str]]:
        return [(self.namespace, s.port) for s in self.stations]


def build(tag: str, ledger: Ledger) -> ServerPath:
    """All of it is in namespaces that the ledger names: it goes when they go."""
    names = {role: f"{tag}{role}" for role in _ROLES}
    for name in names.values():
        make_namespace(name, ledger)
    try:
        _bridge(names["server"])
        stations = [_station(names["server"], names[role], i + 1) for i, role in enumerate("ab")]
    except netlink.NetlinkError as error:
        raise HeadraceError(f"the path cannot be made: {error}") from None
    server = str(_NAMESPACES / names["server"])
    _filter(server)
    return ServerPath(namespace=server, bridge=BRIDGE, sender=stations[0], receiver=stations[1])


def rebuild(tag: str, ledger: Ledger) -> ServerPath:
    """The same, without what the one before has left in the kernel: fragments that wait for others
    take all the memory that reassembly may have, for half a minute (net.ipv4.ipfrag_time), and what
    comes meanwhile is lost."""
    for role in _ROLES:
        netlink.netns.remove(f"{tag}{role}")
    path = build(tag, ledger)
    within(path.sender.namespace, partial(_find, path.receiver.address))
    return path


def _find(address: str) -> None:
    """That the first datagram of a run does not wait for ARP, and is lost as it is too large to."""
    with socket(AF_INET, SOCK_DGRAM) as s:
        s.sendto(b"", (address, _DISCARD))
    time.sleep(0.01)


def _bridge(server: str) -> None:
    def make() -> None:
        with netlink.IPRoute() as ip:
            ip.link("add", ifname=BRIDGE, kind="bridge", br_stp_state=0, br_mcast_snooping=0)
            ip.link("set", index=ip.link_lookup(ifname=BRIDGE)[0], state="up")

    within(server, make)


def _station(server: str, name: str, number: int) -> Station:
    port, address = f"port{number}", f"10.71.0.{number}"

    def join() -> None:
        with netlink.IPRoute() as ip:
            ip.link("add", ifname=port, kind="veth", peer={"ifname": "eth0", "net_ns_fd": name})
            master = ip.link_lookup(ifname=BRIDGE)[0]
            ip.link("set", index=ip.link_lookup(ifname=port)[0], master=master, state="up")

    def settle() -> str:
        with netlink.IPRoute() as ip:
            index = ip.link_lookup(ifname="eth0")[0]
            ip.addr("add", index=index, address=address, prefixlen=24)
            ip.link("set", index=index, state="up")
            return str(ip.get_links(index)[0].get_attr("IFLA_ADDRESS"))

    within(server, join)
    mac = within(name, settle)
    return Station(
        namespace=str(_NAMESPACES / name), device="eth0", mac=mac, address=address, port=port
    )


_RULES = """table ip headrace {
  chain forward {
    type filter hook forward priority filter; policy accept;
    ct state established,related accept
  }
}
"""


def _filter(server: str) -> None:
    """Where the kernel has no bridge-netfilter, that advice has nothing to say, and this to do."""
    if not Path(BRIDGE_NF).exists():
        return
    if shutil.which("nft") is None:
        raise HeadraceError("nft: not found; install it (`apt-get install nftables`)")
    settings.run(server, ["nft", _RULES])
    settings.Setting(namespace=server, target=BRIDGE_NF, value="1").write()


def cpus() -> list[int]:
    return sorted(os.sched_getaffinity(0))
