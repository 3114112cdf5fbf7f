# SPDX-License-Identifier: Apache-2.0
"""Is there a path from source to sink? One packet per direction; if it is lost, say where."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from headrace.engine import counters as count
from headrace.engine.counts import EngineCounts
from headrace.engine.plan_compiler import Path
from headrace.engine.plan_document import Plan, chain_of
from headrace.engine.running import RunningEngine, looks
from headrace.errors import HeadraceError
from headrace.record.counters import Counters
from headrace.spec.study import Experiment

Policy = Mapping[str, frozenset[str]]  # function: drop reasons

# If the first packet is dropped by a rule on purpose, other flows may still pass.
_MORE_PACKETS = 64
_PACKET_PPS = 1000.0
# On a busy machine a chain of several segments on one lcore may take its time over one packet.
# Where a look itself takes seconds (other servers, emulated CPUs), time alone says nothing.
_PATIENCE_S = 3.0
_LOOKS = 8
_SENDING_S = 60.0  # after which a source that has not sent all is not waited for any more
_POLL_S = 0.05


class NoPath(HeadraceError):
    """Not one packet came through."""


def verify_path(
    engine: RunningEngine,
    experiment: Experiment,
    ways: tuple[Path, ...],
    plan: Plan,
    policy: Policy,
) -> None:
    """`policy`: what functions drop because they are told to, where that is no loss. Packets that
    the last function ends so have come as far as they should."""
    for way in ways:
        for packets in (1, _MORE_PACKETS):
            before, after = _send(engine, way, packets)
            if after.sink(way.sink).received > 0:
                break
        else:
            counters = count.difference(before, after, plan)
            # Hosted functions are in no segment of the host's plan; they have no branches either.
            chain = chain_of(plan, way.wire, way.back, way.direction) or _in_line(experiment, way)
            if chain and ended_as_told(counters, chain[-1], policy):
                continue
            where = stood_still(counters, chain, way, after)
            raise NoPath(
                f"chain {experiment.chain}, {way.direction}: "
                f"none of {packets} packets arrived; {where}"
            )


def ended_as_told(counters: Counters, last: str, policy: Policy) -> bool:
    readings = [replica.nfs[last] for replica in counters.replicas if last in replica.nfs]
    reasons = policy.get(last, frozenset())
    told = sum(n for one in readings for reason, n in one.dropped.items() if reason in reasons)
    return 0 < told == sum(one.packets_in for one in readings)


def _send(engine: RunningEngine, way: Path, packets: int) -> tuple[EngineCounts, EngineCounts]:
    """Sends until the sink has one of them, or for as long as one may take since the source was
    seen to be done. What it did not send, as it had no CPU while that was due, is no loss: it is
    asked again."""
    before = after = engine.read()
    _start(engine, way, packets)
    done_looks, over = 0, time.monotonic() + packets / _PACKET_PPS + _SENDING_S
    for after in looks(engine, _POLL_S):
        if after.sink(way.sink).received > 0:
            break
        now, source = time.monotonic(), after.source(way.source)
        done = source.state == "done"
        if done and source.unsent and now < over and not done_looks:
            _start(engine, way, source.unsent)
            continue
        if done and not done_looks:
            over = now + _PATIENCE_S
        done_looks += done
        if now >= over and not 0 < done_looks < _LOOKS:
            break
    engine.request("stop")
    return before, after


def _start(engine: RunningEngine, way: Path, packets: int) -> None:
    engine.request("start", sources={way.source: {"rate_pps": _PACKET_PPS, "packets": packets}})


def _in_line(experiment: Experiment, way: Path) -> list[str]:
    names = [node.name for node in experiment.nodes]
    return names if way.direction == "forward" else names[::-1]


def stood_still(counters: Counters, chain: Sequence[str], way: Path, after: EngineCounts) -> str:
    """The first element along the path whose counter did not move, and what the one before did."""
    previous = ""
    for element, passed, note in _elements(counters, chain, way, after):
        if passed == 0:
            return f"first element that saw nothing: {element}" + (
                f" ({previous})" if previous else ""
            )
        previous = f"{element} {note}" if note else ""
    return f"all elements passed packets, but the sink took none{previous and f' ({previous})'}"


def _elements(
    counters: Counters, chain: Sequence[str], way: Path, after: EngineCounts
) -> Iterator[tuple[str, int, str]]:
    yield "source", after.source(way.source).sent, ""
    if way.wire in after.links:  # on a real NIC there is none
        taken = sum(replica.inputs.get(way.wire, 0) for replica in counters.replicas)
        yield f"the chain's first segment (reads {way.wire})", taken, ""
    for name in chain:
        readings = [r.nfs[name] for r in counters.replicas if name in r.nfs]
        yield f"function {name}", sum(r.packets_in for r in readings), ""
        out = sum(sum(r.out.values()) for r in readings)
        reasons: dict[str, int] = {}
        for reading in readings:
            for reason, packets in reading.dropped.items():
                reasons[reason] = reasons.get(reason, 0) + packets
            if reading.aborted:
                reasons["malformed"] = reasons.get("malformed", 0) + reading.aborted
        text = ", ".join(f"{packets} dropped as {reason}" for reason, packets in reasons.items())
        yield f"output of {name}" + (f": {text}" if text else ""), out, text
    if way.back in after.links:
        measured = sum(replica.inputs.get(way.back, 0) for replica in counters.replicas)
        yield f"the sink's segment (reads {way.back})", measured, ""
