# SPDX-License-Identifier: Apache-2.0
"""What a virtual switch of polling threads carries between ports and VNFs.

A packet crosses the switch from a port to a VNF, from VNF to VNF, and from a VNF to a port. A pair
of ports costs `port`, a VNF's two ends `crossing`; `in_share` of that is on the side that takes
from a port and gives to a VNF. Each end of a VNF is polled by one thread; the ports
have a queue for each core. The busiest core sets the rate: an odd VNF on two cores leaves one of
them half idle. Beyond that:

- `mixed`: packets of several chains in one vector go to several next nodes, which breaks the loop
  that expects the same one again; so is every packet but one in as many as there are chains.
- `copy`: what a frame is longer than one line is copied when it is given to a VNF; the caches'
  ways between cores are shared, so that a copy takes longer by `crowd` for each 1 Mpps and VNF.
- `vhost`: a machine's queue costs so many times what a container's shared memory does, for copies,
  too: each buffer's address in the guest is looked up, and the guest has its lines in a cache of
  its own core.

Times are microseconds of a core for a packet, of both directions together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

_ROUNDS = 80
_LINE = 64


@dataclass(frozen=True)
class SwitchCosts:
    port: float
    crossing: float
    in_share: float
    mixed: float
    copy_kib: float  # of 1024 bytes
    crowd: float
    vhost: float


@dataclass(frozen=True)
class SwitchedChains:
    """`joined`: VNFs of a chain give packets to each other, and only its ends are at the switch."""

    cores: int
    chains: int
    vnfs: int  # of each chain
    frame_bytes: float
    link: Literal["memif", "vhost"] = "memif"
    joined: bool = False


def switched_mpps(costs: SwitchCosts, of: SwitchedChains) -> float:
    """Both directions together. The copies' cost depends on the rate: its fixed point."""
    rate = 1 / busiest_us(costs, of, 0.0)
    for _ in range(_ROUNDS):
        rate = (rate + 1 / busiest_us(costs, of, rate)) / 2
    return rate


def busiest_us(costs: SwitchCosts, of: SwitchedChains, mpps: float) -> float:
    """What the core with most to do takes for each packet of all chains."""
    return max(shares(costs, of, mpps))


def shares(costs: SwitchCosts, of: SwitchedChains, mpps: float) -> list[float]:
    """Each core's."""
    link = costs.vhost if of.link == "vhost" else 1.0
    crossing = costs.crossing * link
    crowd = 1 + costs.crowd * of.chains * of.vnfs * mpps
    copy = costs.copy_kib * link * max(0.0, of.frame_bytes - _LINE) / 1024 * crowd
    mixed = costs.mixed * (1 - 1 / of.chains)
    inward = costs.in_share * (costs.port + crossing) + copy + mixed
    outward = (1 - costs.in_share) * (costs.port + crossing) + mixed
    between = crossing + copy + mixed
    cores = [inward / of.cores] * of.cores  # a port has a queue for each
    seen = 1 if of.joined else of.vnfs
    for number in range(of.chains * seen):
        at = number % seen
        ends = (outward if at == 0 else between) + (outward if at == seen - 1 else between)
        cores[number % of.cores] += ends / (2 * of.chains)
    return cores
