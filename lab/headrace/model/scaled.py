# SPDX-License-Identifier: Apache-2.0
"""What a function costs on a described server, by what it cost on another one.

Cycles that are instructions stay as many; cycles that wait for a level of memory are counted anew,
with that server's sizes and delays (Sieber et al. 2017, section 4.3, as model/amat.py has it): a
working set of W bytes that is accessed evenly misses a cache of S bytes with 1 - S/W. A cache that
several lcores share holds all of their working sets, each evenly: there W is the sum of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from headrace.model.popularity import ZipfRanks, missed
from headrace.spec.described import DescribedFunction, DescribedServer, MemoryLevel, Sourced

SHORTEST = 64  # bytes of a frame


@dataclass(frozen=True)
class WorkingSet:
    """Bytes of state that a function on one thread goes through. Replicas that read one table go
    through the same bytes (`table` says which); each has flows of its own. `ranks`: how often each
    is asked for; None: all alike."""

    cpu: int
    size_bytes: float
    table: str | None = None
    ranks: ZipfRanks | None = None


@dataclass(frozen=True)
class ScaledFunction:
    """Cycles per packet, of the described server's core clock."""

    base: float
    wait: float  # for its state
    rx: float
    rx_known: float
    tx: float
    loop: float
    poll: float
    poll_near: float
    far: float  # more where packets come from another lcore,
    known_far: float  # and are classified
    over: float  # more where they go to one


def at(figure: Sourced | None, corner: float, default: float = 0.0) -> float:
    return default if figure is None else figure.at(corner)


def _delay(level: MemoryLevel, overlapped: bool, corner: float) -> float:
    return (level.gather_cycles if overlapped else level.cycles).at(corner)


def wait(
    server: DescribedServer,
    cost: DescribedFunction,
    cpu: int,
    sets: Sequence[WorkingSet],
    corner: float = 0.0,
    ranks: ZipfRanks | None = None,
) -> float:
    """Cycles that a packet waits for its state on this thread. `sets`: of all functions that run,
    this one's among them; none: all state at hand. `ranks`: of this function's."""
    accesses = at(cost.accesses, corner)
    if not accesses or not sets:
        return 0.0
    total = 0.0
    for level, following in zip(server.levels, server.levels[1:], strict=False):
        here = server.domain_of(level, cpu)
        crowd = _together([one for one in sets if server.domain_of(level, one.cpu) == here])
        size = at(level.kib, 0.0) * 1024
        further = _delay(following, cost.overlapped, corner) - _delay(
            level, cost.overlapped, corner
        )
        total += missed(size, crowd, ranks) * max(0.0, further)
    return accesses * total


def _together(sets: Sequence[WorkingSet]) -> list[tuple[float, ZipfRanks | None]]:
    shared = {one.table: one for one in sets if one.table is not None}
    apart = [one for one in sets if one.table is None]
    return [(one.size_bytes, one.ranks) for one in (*shared.values(), *apart)]


def hand_over(
    home: DescribedServer, server: DescribedServer, cycles: float, remote: float = 0.0
) -> float:
    """A packet that another core wrote, by how long a line takes from there on both servers.
    `remote`: the share of such packets whose core is of another socket than this one's."""
    theirs, ours, away = home.transfer_cycles, server.transfer_cycles, server.remote_cycles
    if not (theirs and ours and theirs.value):
        return cycles
    away = away or ours
    return cycles * ((1 - remote) * ours.value + remote * away.value) / theirs.value


def scaled(
    home: DescribedServer,
    server: DescribedServer,
    cost: DescribedFunction,
    cpu: int,
    sets: Sequence[WorkingSet],
    corner: float = 0.0,
    frame: float = SHORTEST,
    remote: float = 0.0,
    onward: float = 0.0,
    ranks: ZipfRanks | None = None,
) -> ScaledFunction:
    """`home`: the server that `cost` was measured on. `corner`: see Sourced.at. `frame`: bytes.
    `remote`, `onward`: as of `hand_over`, of the lcores that packets come from and go to. `ranks`:
    of flows."""
    longer = max(0.0, frame - SHORTEST) / 1024
    far = hand_over(home, server, cost.hand_over.at(corner), remote)
    known = at(cost.rx_known, corner, cost.rx.at(corner))
    known_far = cost.rx.at(corner) - known + far
    if cost.known_over is not None:
        known_far = hand_over(home, server, cost.known_over.at(corner), remote)
    return ScaledFunction(
        base=cost.base.at(corner) + longer * at(cost.base_kib, corner),
        wait=wait(server, cost, cpu, sets, corner, ranks if cost.entries == "flows" else None),
        rx=cost.rx.at(corner),
        rx_known=known,
        tx=cost.tx.at(corner),
        loop=cost.loop.at(corner),
        # A packet that comes alone waits for its lines one after the other.
        poll=hand_over(home, server, cost.poll.at(corner), remote),
        poll_near=at(cost.poll_near, corner, cost.poll.at(corner)),
        far=far,
        known_far=known_far,
        over=hand_over(home, server, at(cost.sent_over, corner), onward),
    )


def busiest_share(flows: int, replicas: int, even: bool, ranks: ZipfRanks | None = None) -> float:
    """The share of the packets that the busiest of these replicas gets: flows are steered one by
    one. `even`: in turn; otherwise by a hash, as balls into bins: the mean number and the deviation
    that the largest of so many has (Raab and Steger 1998, Balls into Bins)."""
    if replicas <= 1 or flows <= 0:
        return 1.0
    if ranks is not None:
        return ranks.of_busiest(replicas, even)
    if even:
        return -(-flows // replicas) / flows
    mean = flows / replicas
    if flows <= replicas:
        return min(1.0, 2 / flows)
    deviation = math.sqrt(mean * (1 - 1 / replicas))
    return min(1.0, (mean + deviation * _LARGEST.get(replicas, _largest(replicas))) / flows)


def _largest(count: int) -> float:
    """About how far the largest of so many normal deviates lies from their mean (Blom 1958)."""
    return NormalDist().inv_cdf((count - 0.375) / (count + 0.25))


_LARGEST: Mapping[int, float] = {2: 0.564, 3: 0.846, 4: 1.029}  # exact (Tippett 1925)
