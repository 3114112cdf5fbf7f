# SPDX-License-Identifier: Apache-2.0
"""What a neighbour on the same lcore gets while a VNF attacks its link, beside what it gets while
that VNF behaves.

In turns of a quarter of a second, a turn of each attack between two of a VNF that behaves. What the
neighbour gets is read from slices of 10 ms in which nothing else kept the lcore from it
(headrace.model.undisturbed), by the lcore's own TSC: the machine's noise is not in them. An attack
that keeps the lcore for longer than 100 us at a time looks like such noise. So what the lcore was
held, with its CPU, is taken off what it got in all slices.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from headrace.engine.sliced import SlicesReply, columns_of
from headrace.host.cpu_time import shield
from headrace.model.undisturbed import quiet
from headrace.record.slices import ReplicaSlices
from perf.stats import Sample
from support.attacked import attacked_plan
from support.engine import Engine
from support.shm_attacks import ATTACKS, drains, sends, tells_nonsense, writes_nonsense
from support.shm_peer import (
    BYTES_AT,
    HEAD,
    SLOTS_AT,
    TAIL,
    TO_CLIENT,
    TO_SERVER,
    Peer,
    joined,
)

LOAD_PPS = 200_000  # to the VNF; the neighbour has all that the lcore can do beside it
FLOWS = 64  # of which a VNF may tell what it decided
WARM_S = 0.15  # a VNF comes, and prepares its attack
LEAST = 4  # undisturbed slices of a turn
FORK = multiprocessing.get_context("fork")
KNOWN_CYCLES, KNOWN_EACH_MS = 2000, 23  # 46 million cycles a second: about 2 % of an lcore

What = Callable[[Peer, float], None]


def plan(cpu: int, path: Path, flows: int = 0, cycles: int | None = None) -> dict[str, Any]:
    """The neighbour has always packets. `cycles`: what the host does with each packet of the
    VNF's."""
    vf = {"type": "shm", "params": {"socket": str(path), "offload": flows}}
    whole = attacked_plan(cpu, vf, stamp=False)
    if cycles is not None:
        whole["nfs"] = {"delay": {"type": "delay", "params": {"cycles": cycles}}}
        [back] = [one for one in whole["segments"] if one["name"] == "in"]
        back["inputs"] = [{"link": "vf", "to": "delay"}]
        back["nodes"] = {"delay": {"forward": {"out": "link:meas"}}}
    return whole


def _does(path: Path, cpu: int, what: What, until: float) -> None:
    """Who was let go comes again."""
    os.sched_setaffinity(0, {cpu})
    while time.monotonic() < until:
        with contextlib.suppress(OSError), joined(path) as peer:
            what(peer, until)


@dataclass(frozen=True)
class Turn:
    """What all replicas did in some time, and in which slices nothing disturbed their lcore."""

    what: What
    replicas: dict[str, ReplicaSlices]

    def of(self, segment: str, column: str) -> Any:
        return self.replicas[segment][column]


def _turn(engine: Engine, path: Path, cpu: int, what: What, seconds: float) -> Turn:
    until = time.monotonic() + WARM_S + seconds + 0.05
    vnf = FORK.Process(target=_does, args=(path, cpu, what, until))
    vnf.start()
    time.sleep(WARM_S)
    began = engine.call("read")["tsc"]
    time.sleep(seconds)
    ended = engine.call("read")["tsc"]
    reply = SlicesReply.model_validate(engine.call("slices", since=began, until=ended))
    vnf.join(1)
    vnf.kill()
    vnf.join()
    engine.wait_for(lambda: not engine.call("read")["links"]["vf"]["up"], "its end", 10, 0.01)
    return Turn(what, {one.segment: one for one in columns_of(reply)})


def _undisturbed(turns: Sequence[Turn]) -> list[Any]:
    """By one measure for turns that are compared: which slices of each count."""
    each = [turn.replicas["next"] for turn in turns]
    columns = {n: np.concatenate([one[n] for one in each]) for n in each[0].columns}
    ends = np.cumsum([one["ref"].size for one in each])
    return np.split(quiet(replace(each[0], columns=columns)), ends[:-1])


def _held(turn: Turn) -> float:
    """The share of time in which the lcore had its CPU, and was at one thing for long."""
    one = turn.replicas["next"]
    held = np.maximum(one["pauses"] - one["kept_us"] * 1e-6 * one.tsc_hz, 0)
    return float(held.sum() / one["ref"].sum())


def _rate(turn: Turn, counted: Any) -> float:
    """The neighbour's packets, by cycle that the lcore was not held."""
    packets, ref = turn.of("next", "packets")[counted], turn.of("next", "ref")[counted]
    return float(packets.sum() / ref.sum()) * (1 - _held(turn))


def _sends(peer: Peer, until: float, each_ms: int) -> None:
    """So many packets a millisecond, on which nothing else depends."""
    head, frame = 0, bytes(12) + b"\x08\x00" + bytes(46)
    for slot in range(2 * peer.slots):
        at = SLOTS_AT + slot * peer.stride
        peer.put(at + BYTES_AT, len(frame), "<I")
        peer.memory[at + 16 : at + 16 + len(frame)] = frame
    while time.monotonic() < until:
        head += each_ms
        peer.put(TO_SERVER + HEAD, head)
        peer.memory[TO_CLIENT + TAIL : TO_CLIENT + TAIL + 8] = peer.memory[:8]
        time.sleep(0.001)


def sends_none(peer: Peer, until: float) -> None:
    _sends(peer, until, 0)


def sends_some(peer: Peer, until: float) -> None:
    _sends(peer, until, KNOWN_EACH_MS)


# What an attack is compared with: as many packets, where it sends some.
BEHAVES: dict[What, What] = {writes_nonsense: sends, sends_some: sends_none}


def _run(
    engine: Engine, path: Path, cpu: int, attacks: Sequence[What], rounds: int, seconds: float
) -> Iterator[tuple[Turn, Turn, Turn]]:
    """Each attack between two turns of a VNF that behaves."""
    shield(engine.process.pid)
    forever = {"rate_pps": LOAD_PPS, "duration_s": 3600}
    engine.call("start", sources={"gen": forever, "gen2": {**forever, "rate_pps": 0}})
    last: Turn | None = None
    for what in attacks * rounds:
        good = BEHAVES.get(what, drains)
        first = last if last and last.what is good else _turn(engine, path, cpu, good, seconds)
        attacked = _turn(engine, path, cpu, what, seconds)
        last = _turn(engine, path, cpu, good, seconds)
        yield first, attacked, last
    engine.call("stop")


def _slower(turns: Iterable[tuple[Turn, Turn, Turn]]) -> dict[str, Sample]:
    """By attack: the neighbour's rate beside a VNF that behaves, over that beside this one."""
    slower: dict[str, list[float]] = {}
    for three in turns:
        masks = _undisturbed(three)
        if min(int(mask.sum()) for mask in masks) >= LEAST:
            first, rate, last = (_rate(*one) for one in zip(three, masks, strict=True))
            slower.setdefault(three[1].what.__name__, []).append((first + last) / 2 / rate)
    return {name: Sample(tuple(values)) for name, values in slower.items()}


def taken(
    binary: Path, folder: Path, cpus: Sequence[int], rounds: int, seconds: float
) -> dict[str, Sample]:
    """By attack; the first, `drains`, is none. What a VNF tells is asked of it by another link."""
    path, ratios = folder / "vf.sock", dict[str, Sample]()
    others = [one for one in ATTACKS if one is not tells_nonsense]
    for flows, attacks in ((0, [drains, *others]), (FLOWS, [tells_nonsense])):
        with Engine(binary, plan(cpus[0], path, flows), folder) as engine:
            ratios |= _slower(_run(engine, path, cpus[1], attacks, rounds, seconds))
    return ratios


def known(
    binary: Path, folder: Path, cpus: Sequence[int], rounds: int, seconds: float
) -> tuple[Sample, Sample]:
    """A VNF whose packets have the host do a work of known cycles: by how much that slows the
    neighbour, as it is measured, and by the number of packets."""
    path = folder / "vf.sock"
    with Engine(binary, plan(cpus[0], path, cycles=KNOWN_CYCLES), folder) as engine:
        turns = [*_run(engine, path, cpus[1], [sends_some], rounds, seconds)]
    shares = []
    for _, turn, _ in turns:
        packets, ref = (turn.of("in", name).sum() for name in ("packets", "ref"))
        shares.append(1 / (1 - packets * KNOWN_CYCLES / ref))
    return _slower(turns)["sends_some"], Sample(tuple(shares))
