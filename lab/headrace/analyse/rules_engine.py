# SPDX-License-Identifier: Apache-2.0
"""Rules on the engine's counters, just below and just above the rate that was found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.analyse.bottleneck import Pipe, pipe_of
from headrace.analyse.capacity import HELD_CHECKS, HELD_UP, Part, parts_of, unreached
from headrace.analyse.diagnosis import Diagnosis, Weight
from headrace.analyse.repetitions import together
from headrace.analyse.rule_evidence import Evidence
from headrace.analyse.units import percent, pps
from headrace.ground.hosted.parts import NIC
from headrace.record.counters import Counters
from headrace.record.rows import Measurement, Result
from headrace.record.segments import Limit

BUSY = 0.90  # an lcore above may have been without cycles for a burst
PAUSES = 0.1  # of a trial: who is away for longer is not helped by a larger ring
BURST_S = 1e-3  # of the load: a ring that holds as much is not small
RING_LOSS = 1e-4  # of the packets that came: less is within the loss that a goal allows


# What the tester's verdicts on a measurement mean, and what is to be done.
_NOT_THE_CHAIN = {
    "invalid": (
        "an audit check found that this is no measurement of the chain",
        "what the findings name, then measure again",
    ),
    "generator-bound": (
        "the generator could not send what was asked: the chain's limit was not met",
        "larger frames, or fewer fields that vary",
    ),
}


_TWO_LCORES = "lcores of their own for generator and sink (`lcores.traffic` with two), or "


# Clients and servers of third-party VNFs have processes, no lcores; their requests no fields.
_NO_ENGINE = "end the other work, or give the traffic's programs more CPU; then measure again"


def _shared(at: Measurement, roles: Sequence[str]) -> bool:
    """Whether one of these has no lcore to itself. Where nothing is known of them: nothing."""
    own = [s for s in at.segments if s.role in roles]
    return any(set(a.cpus) & set(b.cpus) for a in own for b in at.segments if a is not b)


def _not_the_chains(at: Measurement) -> bool:
    return at.audit.verdict == "invalid" or unreached(at)


def generator_bound(e: Evidence) -> Iterator[Diagnosis]:
    for at, _ in e.measurements():
        if not _not_the_chains(at):
            continue
        text, remedy = _NOT_THE_CHAIN[at.audit.verdict]
        if at.audit.verdict == "generator-bound":
            shared = _TWO_LCORES * _shared(at, ("generator",))
            remedy = shared + remedy if at.segments else _NO_ENGINE
        yield Diagnosis(
            rule=at.audit.verdict,
            weight=Weight.TESTER,
            share=1.0,
            place=place_of(at),
            text=text,
            evidence=(
                *(f.text for f in at.audit.findings if not f.ok),
                measured_line(at, e.repeated),
            ),
            remedy=remedy,
        )


def disturbed(e: Evidence) -> Iterator[Diagnosis]:
    """An lcore that did not run counts as slow, and its packets as lost: this comes first."""
    for at, above in e.measurements():
        if _smallest_ring(at, above, e.repeated) or _smallest_ring(at, at, e.repeated):
            continue  # short pauses, which a larger ring would bridge
        told = [f.text for f in at.audit.findings if not f.ok and f.check in HELD_CHECKS]
        held = [p for p in parts_of(at) if p.held_up]
        # Without one away for that long, more than this was not lost by pauses.
        pauses = told and at.loss_ratio <= 2 * HELD_UP
        if not pauses and not held:
            continue
        yield Diagnosis(
            rule="disturbed",
            weight=Weight.TESTER,
            share=1.0,
            place=place_of(at),
            text="lcores were kept from running during the trial: what the chain loses and costs "
            "cannot be told from that",
            evidence=(
                *told,
                *(f"{p.name} was held up for {percent(p.held_up, 2)} of the trial" for p in held),
                measured_line(at, e.repeated),
            ),
            remedy="end the other work or keep it off the lcores (cpusets, isolcpus), or take a "
            "machine whose CPUs are not lent to others; then measure again",
        )


def narrowest(e: Evidence) -> Iterator[Diagnosis]:
    """What a report explains, of all repetitions together."""
    for results, above in e.experiments():
        at = together(results)
        if _not_the_chains(at):
            continue
        small = max(
            (d for one in above if (d := _smallest_ring(at, one, e.repeated)) is not None),
            key=lambda d: d.share,
            default=None,
        )
        if small is not None:
            yield small
            continue
        drawn = pipe_of(results, above)
        measured = measured_line(at, times=len(results))
        if drawn.limit is not None:
            yield _limit_reached(drawn.limit, at, drawn, measured)
        elif drawn.narrowest is not None and drawn.part(drawn.narrowest).role == "chain":
            yield _slow_part(drawn.part(drawn.narrowest), at, drawn, measured)
        elif drawn.narrowest is not None:
            yield _narrow_tester(at, drawn, measured)


def _smallest_ring(at: Measurement, above: Measurement | None, repeated: bool) -> Diagnosis | None:
    chain = [p for p in parts_of(at) if p.role == "chain"]
    small_rings = [small for p in chain if (small := _small_ring(p, above, repeated)) is not None]
    return max(small_rings, key=lambda d: d.share, default=None)


def _small_ring(part: Part, above: Measurement | None, repeated: bool) -> Diagnosis | None:
    """A ring overflows although its reader has time, and it holds no more than a short burst or
    pause of the load. What its reader's time was counts where it overflowed, not at the rate that
    was found."""
    if above is None or above.counters is None:
        return None
    reader = next((p for p in parts_of(above) if p.name == part.name), None)
    if reader is None or reader.utilisation is None or (reader.held_up or 0.0) > PAUSES:
        return None
    used = reader.utilisation
    if reader.capacity_pps and reader.full_burst_cycles:
        # With small bursts it may be busy all the time, and yet take more when more come.
        used = min(used, above.load_pps / reader.capacity_pps)
    if used >= BUSY:
        return None
    full = _full(part, above.counters)
    if not full:
        return None
    ring, lost = max(full.items(), key=lambda item: item[1])
    if lost < RING_LOSS * max(above.intended, 1):
        return None
    size = above.counters.rings[ring].size
    if size > BURST_S * above.load_pps:
        return None
    return Diagnosis(
        rule="small-ring",
        weight=Weight.LOSS,
        share=lost / max(above.intended, 1),
        place=f"{place_of(above)}: {ring}",
        text=f"ring {ring} ({size} packets) overflowed while {part.name}, which reads it, had "
        f"{percent(1 - used, 2)} of its capacity left",
        evidence=(
            f"{lost} of {above.intended} packets found it full",
            f"it holds {size / above.load_pps * 1e6:.3g} µs of that load",
            measured_line(above, repeated),
        ),
        remedy="a larger ring (`size`), or smaller bursts into it",
    )


def _full(part: Part, counters: Counters) -> dict[str, int]:
    return {name: counters.rings[name].full for name in part.rings if name in counters.rings}


def _slow_part(part: Part, at: Measurement, drawn: Pipe, measured: str) -> Diagnosis:
    costs = [c for c in part.costs if c.cycles > 0]
    total = sum(c.cycles for c in costs)
    most = max(costs, key=lambda c: c.cycles, default=None)
    name = most.name if most is not None and most.kind == "nf" else None
    return Diagnosis(
        rule="slow-segment" if name is None else "slow-nf",
        weight=Weight.SHORTAGE,
        share=part.utilisation or 0.0,
        place=f"{place_of(at)}: {name or part.name}",
        text=drawn.headline,
        evidence=(
            *(f"{c.name}: {c.cycles:.0f} of {total:.0f} cycles per packet" for c in costs[:4]),
            *drawn.reasons,
            measured,
        ),
        remedy=_wider(part, at),
    )


def _narrow_tester(at: Measurement, drawn: Pipe, measured: str) -> Diagnosis:
    """It kept the load that was asked for, but no greater one would show the chain's limit."""
    return Diagnosis(
        rule="narrow-tester",
        weight=Weight.ADVICE,
        share=drawn.part(drawn.narrowest or "").utilisation or 0.0,
        place=place_of(at),
        text=drawn.headline,
        evidence=(*drawn.reasons, measured),
        remedy=_TWO_LCORES * _shared(at, ("generator", "sink")) + "larger frames",
    )


def _wider(part: Part, at: Measurement) -> str:
    """What the deployment allows: a hosted VNF has one lcore, and no replicas."""
    if all(segment.hosting == "inline" for segment in at.segments):
        cut = (
            ", or another cut of the chain; `headrace run` sweeps execution models"
            if len([nf for segment in at.segments for nf in segment.nfs]) > 1
            else ""
        )
        return f"another lcore for this segment (`replicas`){cut}"
    if part.name == NIC:
        return "lcores of their own for generator, switch and sink (`lcores.traffic` with three)"
    alone = "" if not part.shares_cpu_with else "an lcore that it shares with nobody, or "
    fewer = "fewer functions in this VNF (another cut: `execution`), or " if part.nfs[1:] else ""
    return f"{alone}{fewer}more chains side by side (`hosting.chains`)"


# What would move a limit; each word is one that the deployment takes.
_MOVED_BY = {
    "switch": "a NIC that has more (`hosting.switch_gbps`)",
    "uplink": "a faster wire (`hosting.uplink_gbps`)",
    "rate-cap": "a larger licence (`rate_cap_gbps`), or more chains side by side "
    "(`hosting.chains`)",
    "port": "more or faster ports (the server's `ports`), or smaller frames",
    "nic-rate": "a NIC that takes more packets (the server's `ports`), or larger frames",
}
_FEWER = (
    "fewer VNFs on the way of a packet (`execution: rtc` has the chain in one): each goes twice "
    "between NIC and host; or "
)
_REFLECTED = "`network: veb`, whose frames from VNF to VNF do not leave by the wire; or "


def _limit_reached(limit: Limit, at: Measurement, drawn: Pipe, measured: str) -> Diagnosis:
    before = ""
    if limit.kind == "uplink" and limit.crossings > 1.5:
        before = _REFLECTED
    elif limit.kind == "switch" and _several_vnfs(at):
        before = _FEWER
    return Diagnosis(
        rule="limit-reached",
        weight=Weight.SHORTAGE,
        share=1.0,  # of its kind nothing is left
        place=f"{place_of(at)}: {limit.place}",
        text=drawn.headline,
        evidence=(*drawn.reasons, measured),
        remedy=before + _moved_by(limit, at),
    )


def _moved_by(limit: Limit, at: Measurement) -> str:
    """A switch that no segment is, is a real NIC's: it has what its ports have."""
    if limit.kind == "switch" and all(segment.name != NIC for segment in at.segments):
        return _MOVED_BY["port"]
    return _MOVED_BY[limit.kind]


def _several_vnfs(at: Measurement) -> bool:
    """Whether several are on one packet's way: they are called vnf1.1, vnf1.2 and so on."""
    vnfs = [segment.name for segment in at.segments if segment.hosting != "inline"]
    return any(name.rpartition(".")[2] != "1" for name in vnfs)


def place_of(at: Measurement) -> str:
    return f"{at.chain}, {at.execution}, {at.workload}"


def measured_line(at: Measurement, repeated: bool = False, times: int = 1) -> str:
    which = f", {times} repetitions" if times > 1 else f", repetition {at.repetition}"
    which = which if repeated or times > 1 else ""
    goal = f", {at.goal}" if isinstance(at, Result) else ""
    verb = "Predicted" if at.ground == "predicted" else "Measured"
    return f"{verb}: {place_of(at)}{goal}{which}, at a load of {pps(at.load_pps or at.sent_pps)}."


RULES = (disturbed, generator_bound, narrowest)
