# SPDX-License-Identifier: Apache-2.0
"""How VNFs on one lcore share its time: by the weights of their control groups.

The kernel gives each of those that have something to do time by its weight, and what one leaves to
the others. With equal weights who needs most of it for a packet gets through fewest packets, and
what others worked on those is wasted. So NFVnice (Kulkarni et al. 2017, NFVnice: Dynamic
Backpressure and Scheduling for NFV Service Chains) weighs each by the rate of its packets times
what one costs.

The rate is here that at which packets come to the chain, less what functions in front drop as they
are meant to: a VNF to which fewer come because the one before it has too little time would be given
less for it. The cost is the time that the kernel says its control group had, for each packet that
it took.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from headrace.engine.counts import EngineCounts
from headrace.engine.ways import Direction
from headrace.ground.hosted.arranged import Hosted
from headrace.ground.hosted.parts import Vnf
from headrace.host.cgroups import EVEN
from headrace.host.cpu_time import cpu_seconds
from headrace.record.segments import CpuShare

_MOST = 1000  # of those on an lcore the heaviest: others to a tenth of a per cent of it
_EVERY_S = 0.25
_LOOKS = 2  # that rates and costs are of
_LAST_S = 0.1  # before a trial's end: packets that are measured come until then


def weights_given(hosted: Hosted) -> list[int | None]:
    """The weight of each VNF's control group at first; None: as it is made."""
    shares = hosted.hosting.shares
    if shares is None:
        return [None] * len(hosted.vnfs)
    if isinstance(shares, str):
        return [EVEN] * len(hosted.vnfs)
    every = shares * hosted.hosting.chains
    weights = weighed(hosted.vnfs, {v.name: w for v, w in zip(hosted.vnfs, every, strict=True)})
    return [weights[one.name] for one in hosted.vnfs]


def weighed(vnfs: Iterable[Vnf], needs: Mapping[str, float]) -> dict[str, int]:
    """A weight for each of whom it is known, in proportion to what it needs, among those on the
    same lcores."""
    most: dict[tuple[int, ...], float] = {}
    for one in vnfs:
        most[one.lcores] = max(most.get(one.lcores, 0.0), needs.get(one.name, 0.0))
    return {
        one.name: max(1, round(_MOST * needs[one.name] / most[one.lcores]))
        for one in vnfs
        if one.name in needs and most[one.lcores] > 0
    }


@dataclass(frozen=True)
class ShareLook:
    """What has come for each VNF's interface by now, what of it the VNF took, and what it sent, by
    the host's link; and the time that its control group has had."""

    at_s: float
    came: Mapping[str, int]
    taken: Mapping[str, int]
    sent: Mapping[str, int]
    cpu_s: Mapping[str, float]


def needed(
    was: ShareLook, now: ShareLook, chains: Sequence[Sequence[Vnf]], ways: Sequence[Direction]
) -> dict[str, float]:
    """CPU time that each VNF needs in a second, for all that comes to its chain. None of those
    that took no packet."""
    seconds = now.at_s - was.at_s

    def grown(counts: str, link: str) -> int:
        return int(getattr(now, counts).get(link, 0) - getattr(was, counts).get(link, 0))

    rates: dict[str, float] = {}
    taken: dict[str, int] = {}
    for chain in chains:
        for way in ways:
            along = chain if way == "forward" else chain[::-1]
            rate = grown("came", along[0].entry(way).link) / seconds
            for one in along:
                took = grown("taken", one.entry(way).link)
                rates[one.name] = rates.get(one.name, 0.0) + rate
                taken[one.name] = taken.get(one.name, 0) + took
                rate *= grown("sent", one.exit(way).link) / took if took else 1.0
    return {
        name: rates[name] * (now.cpu_s[name] - was.cpu_s[name]) / took
        for name, took in taken.items()
        if took and name in now.cpu_s and name in was.cpu_s
    }


class SharingVnf(Protocol):
    """A VNF that runs."""

    @property
    def vnf(self) -> Vnf: ...
    @property
    def pid(self) -> int: ...
    @property
    def alive(self) -> bool: ...
    def weigh(self, weight: int | None = None) -> None: ...


class Host(Protocol):
    """The engine that has the switch."""

    def measuring(self) -> AbstractContextManager[None]: ...
    def host_read(self) -> EngineCounts: ...


class RateCost:
    """Weighs VNFs anew while a trial sends; each trial begins with equal weights."""

    def __init__(
        self,
        host: Host,
        vnfs: Sequence[SharingVnf],
        chains: int,
        ways: Sequence[Direction],
    ) -> None:
        self._host, self._vnfs, self._ways = host, vnfs, ways
        of_each = len(vnfs) // chains
        every = [one.vnf for one in vnfs]
        self._chains = [every[i : i + of_each] for i in range(0, len(every), of_each)]

    def begin(self) -> None:
        for one in self._vnfs:
            one.weigh(EVEN)

    def take(self, began: float, seconds: float) -> None:
        """By the monotonic clock; returns before the seconds are over. VNFs and switch are shielded
        between looks, and not while the lab looks: it would hardly run."""
        behind = deque([self._look(self._host.host_read())], maxlen=_LOOKS)
        until = began + seconds - _EVERY_S - _LAST_S
        while time.monotonic() < until:
            with self._host.measuring():
                time.sleep(_EVERY_S)
            now = self._look(self._host.host_read())
            self._weigh(needed(behind[0], now, self._chains, self._ways))
            behind.append(now)

    def _weigh(self, needs: Mapping[str, float]) -> None:
        weights = weighed([one.vnf for one in self._vnfs], needs)
        for one in self._vnfs:
            if one.vnf.name in weights:
                one.weigh(weights[one.vnf.name])

    def _look(self, read: EngineCounts) -> ShareLook:
        came: dict[str, int] = {}
        taken: dict[str, int] = {}
        sent: dict[str, int] = {}
        for one in read.replicas:
            for link, outlet in one.outputs.items():
                came[link] = came.get(link, 0) + outlet.packets + outlet.full
                taken[link] = taken.get(link, 0) + outlet.packets
            for link, inlet in one.inputs.items():
                sent[link] = sent.get(link, 0) + inlet.packets
        cpu = {one.vnf.name: cpu_seconds(one.pid) for one in self._vnfs if one.alive}
        had = {name: seconds for name, seconds in cpu.items() if seconds is not None}
        return ShareLook(read.tsc / read.tsc_hz, came, taken, sent, had)


def cpu_shares(
    before: EngineCounts, after: EngineCounts, vnfs: Sequence[Vnf]
) -> tuple[CpuShare, ...]:
    """What the kernel's accounts say that each VNF had, of a reading."""
    seconds = (after.tsc - before.tsc) / after.tsc_hz
    return tuple(
        CpuShare(
            vnf=one.name,
            weight=after.vnfs[one.name].weight,
            cpus=had / 1e9 / seconds,
            cost_ns=had / took if took else None,
        )
        for one in vnfs
        if one.name in before.vnfs and one.name in after.vnfs
        for had in [after.vnfs[one.name].cpu_ns - before.vnfs[one.name].cpu_ns]
        for took in [_taken(after, one.name) - _taken(before, one.name)]
    )


def _taken(read: EngineCounts, segment: str) -> int:
    return sum(one.packets_in for one in read.segments.get(segment, ()))
