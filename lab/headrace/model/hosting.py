# SPDX-License-Identifier: Apache-2.0
"""How many VNFs a server hosts without substantial loss (S1).

Per port: the smaller of its virtual functions and its share of the lcores of its own socket, as a
VNF on the other socket loses packets (S1 figure 5); summed over the ports in use. With all ports in
use and evenly spread that is S1's min(a*b, c): a ports of b virtual functions each, c lcores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.errors import bad_value


@dataclass(frozen=True)
class Server:
    ports: tuple[int, ...]  # the socket of each port in use
    vfs: int
    lcores: int
    sockets: int

    def __post_init__(self) -> None:
        for socket in self.ports:
            if not 0 <= socket < self.sockets:
                raise bad_value("--port-socket", str(socket), allowed=f"0 to {self.sockets - 1}")

    def lcores_of(self, socket: int) -> int:
        return self.lcores // self.sockets + (socket < self.lcores % self.sockets)


def of_port(server: Server, port: int) -> int:
    """Ports of one socket share its lcores; what does not divide goes to the first of them."""
    socket = server.ports[port]
    mates = [i for i, other in enumerate(server.ports) if other == socket]
    share, rest = divmod(server.lcores_of(socket), len(mates))
    return min(server.vfs, share + (mates.index(port) < rest))


def capacity(server: Server) -> int:
    return sum(of_port(server, port) for port in range(len(server.ports)))


def explain(server: Server) -> Iterator[str]:
    for port, socket in enumerate(server.ports):
        found = of_port(server, port)
        by = "its virtual functions" if found == server.vfs else f"lcores of socket {socket}"
        yield f"port {port} (socket {socket}): {found}, limited by {by}"


def best_case(one_chain_pps: float, chains: int, limit_pps: float | None = None) -> float:
    """What n chains would carry if none disturbed another: the additive line of S2's figures."""
    total = one_chain_pps * chains
    return total if limit_pps is None else min(total, limit_pps)
