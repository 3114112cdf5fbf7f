# SPDX-License-Identifier: Apache-2.0
"""How many VNFs a server hosts without substantial loss (Wang et al. 2016).

Per port: the smaller of its virtual functions and its share of the lcores of its own socket, as a
VNF on the other socket loses packets (Wang et al. 2016 figure 5); summed over the ports in use.
With all ports in use and evenly spread that is Wang et al.'s min(a*b, c): a ports of b virtual
functions each, c lcores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.errors import HeadraceError, bad_value
from headrace.record.frozen import Record
from headrace.spec.server import Server as Description

# Of a server that a user makes up: more than any has, and few enough to say a line of each port.
PORTS_MAX = 64
NIC_VFS_MAX = 65535  # SR-IOV counts them in 16 bits
LCORES_MAX = 8192  # that Linux can have on x86
SOCKETS_MAX = 64


@dataclass(frozen=True)
class ServerPorts:
    ports: tuple[int, ...]  # the socket of each port in use
    vfs: tuple[int, ...]  # that each port can have
    lcores: tuple[int, ...]  # of each socket
    place: str = "socket"  # what has lcores and ports: a socket, or a NUMA node

    @classmethod
    def even(cls, ports: tuple[int, ...], vfs: int, lcores: int, sockets: int) -> ServerPorts:
        """Ports alike, lcores evenly over the sockets."""
        for socket in ports:
            if not 0 <= socket < sockets:
                raise bad_value("--port-socket", str(socket), allowed=f"0 to {sockets - 1}")
        share, rest = divmod(lcores, sockets)
        return cls(ports, (vfs,) * len(ports), tuple(share + (i < rest) for i in range(sockets)))

    @classmethod
    def detected(cls, server: Description) -> ServerPorts:
        """The server as it was found: its NICs with SR-IOV, and the usable CPUs of their NUMA
        nodes."""
        places = {node.node: i for i, node in enumerate(server.nodes)}
        usable = set(server.usable_cpus)
        nics = [nic for nic in server.nics if nic.vfs_max]
        if not nics:
            raise HeadraceError(
                "no NIC here has SR-IOV functions; say what the server has with --ports, --vfs, "
                "--lcores, --sockets"
            )
        return cls(
            # A machine whose firmware does not say where a NIC is has one node as a rule.
            tuple(places.get(nic.node, 0) if nic.node is not None else 0 for nic in nics),
            tuple(nic.vfs_max for nic in nics),
            tuple(len(usable & set(node.cpus)) for node in server.nodes),
            "node",
        )


class CapacityOutput(Record):
    """What `headrace hosting capacity` prints."""

    vnfs: int
    because: tuple[str, ...]  # a sentence for each port
    server: ServerPorts


def of_port(server: ServerPorts, port: int) -> int:
    """Ports of one socket share its lcores; what does not divide goes to the first of them."""
    socket = server.ports[port]
    mates = [i for i, other in enumerate(server.ports) if other == socket]
    share, rest = divmod(server.lcores[socket], len(mates))
    return min(server.vfs[port], share + (mates.index(port) < rest))


def capacity(server: ServerPorts) -> int:
    return sum(of_port(server, port) for port in range(len(server.ports)))


def explain(server: ServerPorts) -> Iterator[str]:
    for port, socket in enumerate(server.ports):
        port_limits, place = of_port(server, port), f"{server.place} {socket}"
        by = "its virtual functions" if port_limits == server.vfs[port] else f"lcores of {place}"
        yield f"port {port} ({place}): {port_limits}, limited by {by}"


def best_case(one_chain_pps: float, chains: int, limit_pps: float | None = None) -> float:
    """What n chains would carry if none disturbed another: the additive line of Ben Hamed et al.'s
    figures."""
    total = one_chain_pps * chains
    return total if limit_pps is None else min(total, limit_pps)
