# SPDX-License-Identifier: Apache-2.0
"""How long packets take on a described server: by following them, or by the closed form."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from headrace.ground.simulated.priced_hosted import HostedLayout
from headrace.ground.simulated.priced_layout import OUTSIDE, PricedLayout
from headrace.layout.events import Pauses, PolledLcores, Queue, Traversal, follow
from headrace.layout.predicted_latency import QueueStage, latency_s, met_by_most, stages, turn
from headrace.spec.described import DescribedServer
from headrace.spec.study import Experiment

PACKETS = 20_000
_OVERLOADED = 60_000  # until rings are full at a little more than is carried
WIRE = 4096
_SAMPLES = 4096
_TURNS, _LEAST, _MOST = 3, 5_000, 100_000  # of processes that share an lcore; packets
_PAUSES, _PAUSED_MOST = 64, 200_000  # that an lcore has meanwhile; packets


def delays_ns(
    here: PricedLayout,
    load_pps: float,
    capacity_pps: float,
    experiment: Experiment,
    server: DescribedServer,
    engine: str,
) -> NDArray[np.float64] | None:
    """Delays of packets at this load, ns. None: the closed form has none for an overload."""
    hz = here.problem.tsc_hz
    if isinstance(here, HostedLayout):
        return _hosted(here, load_pps, server, engine)
    # Both ways, and past functions that a packet does not meet, nothing is followed.
    if engine == "analytic" or here.other is not None or here.problem.edges:
        return _in_closed_form(here, load_pps, capacity_pps)
    packets = _OVERLOADED if load_pps > 0.98 * capacity_pps else PACKETS
    if server.pauses is not None:  # a few of them would say more of chance than of delays
        times = int(load_pps * _PAUSES / server.pauses.per_s.value)
        packets = max(packets, min(_PAUSED_MOST, times))
    return _followed_ns(traversal(here, load_pps, experiment, server), packets, hz)


@lru_cache(maxsize=512)
def _followed_ns(way: Traversal, packets: int, hz: float) -> NDArray[np.float64]:
    """The same lcores, costs and load always give the same: trials of a search come back to a load,
    and points differ in what costs nothing, as in processes or containers."""
    delays: NDArray[np.float64] = follow(way, packets).steady / hz * 1e9
    delays.flags.writeable = False  # whoever asks has the same array
    return delays


def traversal(
    here: PricedLayout, load_pps: float, experiment: Experiment, server: DescribedServer
) -> Traversal:
    hz, deployment = here.problem.tsc_hz, experiment.study.deployment
    wire = WIRE if deployment.wire == "auto" else deployment.wire
    outside = here.stages[0][0].cpu == OUTSIDE
    way = stages(here.problem, here.layout, load_pps)
    queues = []
    for i, several in enumerate(way):
        inside = 0 < i < len(way) - 1
        more = here.uneven[i - 1] if inside else 1.0
        room = wire if i == 1 else deployment.ring.size
        if i == 1 and outside:
            room = server.ports[0].buffer_packets
        if i == len(way) - 1 and outside:  # what measures is not what sends, whose time is not told
            several = tuple(replace(one, cpu=OUTSIDE - 1) for one in several)
        queues.append(tuple(Queue(one, room=room, share=_share(j, len(several), more))
                            for j, one in enumerate(several)))  # fmt: skip
    lcores = PolledLcores(outside=outside, pauses=_pauses(server, hz))
    return Traversal(tuple(queues), load_pps / hz, lcores)


def _pauses(server: DescribedServer, hz: float) -> Pauses | None:
    if server.pauses is None:
        return None
    lengths = tuple(one * 1e-6 * hz for one in server.pauses.us)
    return Pauses(server.pauses.per_s.value / hz, lengths)


def _hosted(
    here: HostedLayout, load_pps: float, server: DescribedServer, engine: str
) -> NDArray[np.float64] | None:
    """For so long that each process has its lcore several times, or their links are full. There is
    no closed form of processes that take turns."""
    if engine == "analytic":
        return None
    hz = here.problem.tsc_hz
    turns = max(here.awake.values()) * here.slice / hz if max(here.awake.values()) > 1 else 0.0
    packets = min(_MOST, max(_LEAST, int(_TURNS * turns * load_pps)))
    queues, lcores = here.queues(load_pps)
    lcores = replace(lcores, pauses=_pauses(server, hz))
    way = Traversal(tuple(map(tuple, queues)), load_pps / hz, lcores, lanes=True)
    return _followed_ns(way, packets, hz)


def _share(index: int, among: int, uneven: float) -> float:
    """The first replica is the busiest; the others share the rest evenly."""
    most = uneven / among
    return most if index == 0 else (1 - most) / (among - 1)


def _in_closed_form(
    here: PricedLayout, load_pps: float, capacity_pps: float
) -> NDArray[np.float64] | None:
    """A packet of another lcore comes at any time of a turn: waits are even over it, one lcore's
    independent of the next one's."""
    others = here.others_at(load_pps)
    typical = latency_s(here.problem, here.layout, load_pps, others)
    if typical is None or load_pps > capacity_pps:
        return None
    draw = np.random.default_rng(1)
    total = np.full(_SAMPLES, typical * here.problem.tsc_hz)
    every = stages(here.problem, here.layout, load_pps)
    by_cpu: dict[int, list[QueueStage]] = {}
    for one in (*(one for several in every for one in several), *others):
        by_cpu.setdefault(one.cpu, []).append(one)
    met = met_by_most(here.problem, here.layout)
    way = [several for several, most in zip(every, met, strict=True) if most]
    for i, several in enumerate(way):
        cpu = several[0].cpu
        if i and cpu in {one.cpu for one in way[i - 1]}:
            continue  # it is handed on within the turn
        total += (draw.random(_SAMPLES) - 0.5) * (turn(by_cpu[cpu]) or 0.0)
    delays: NDArray[np.float64] = total / here.problem.tsc_hz * 1e9
    return delays
