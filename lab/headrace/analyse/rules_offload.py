# SPDX-License-Identifier: Apache-2.0
"""A rule on offload of state: what the host did in the VNFs' place, and what kept it from more."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.analyse.diagnosis import Diagnosis, Weight
from headrace.analyse.rule_evidence import Evidence
from headrace.analyse.rules_engine import measured_line, place_of
from headrace.analyse.spared import Spared, spared
from headrace.analyse.units import count, percent, plural

_MUCH = 0.1  # of the decisions: so many that it is told what would have fewer of them lost


def offload(e: Evidence) -> Iterator[Diagnosis]:
    """Said of each experiment that offloads, whether or not it is what limits it."""
    for results, _ in e.experiments():
        whole = spared(one.counters for one in results if one.counters is not None)
        if whole is None:
            continue
        yield Diagnosis(
            rule="offload",
            weight=Weight.ADVICE,
            share=1 - whole.share,
            place=place_of(results[0]),
            text=f"the host did to {percent(whole.share, 3)} of the packets what their VNF had "
            f"decided for their flow; {percent(1 - whole.share, 3)} went to the VNFs",
            evidence=(*_why(whole), measured_line(results[0], times=len(results))),
            remedy=_remedy(whole),
        )


def _why(one: Spared) -> Iterator[str]:
    yield f"{plural(one.decisions, 'decision')} told, {count(one.voided)} of them void in the end"
    for packets, text in (
        (one.stale, "were of tables that an update had changed meanwhile"),
        (one.no_room, "found no room for their flow in the host's table"),
        (one.evicted, "gave their place in the host's table to another flow's"),
    ):
        if packets:
            yield f"{count(packets)} {text}"
    if one.fragments:
        yield f"{plural(one.fragments, 'fragment')}, each of which voids all that its VNF decided"
    if one.refused:
        apart = "other lcores read these links than write them"
        yield f"{count(one.refused)} refused: {apart if one.apart else 'they made no sense'}"


def _remedy(one: Spared) -> str:
    told = one.decisions + one.stale + one.no_room + one.refused
    if one.apart:
        return "one lcore for the host's switch: what reads a VNF's link has to write it"
    if one.refused:
        return "a look at the VNFs: what they told is nothing that a function decides"
    if one.no_room + one.evicted > _MUCH * told:
        return "room for more flows (`offload: N` of the execution, up to 65,536)"
    if one.fragments > _MUCH * told:
        return "packets that fit the MTU: fragments do not tell their ports"
    if one.stale > _MUCH * told:
        return "fewer updates of tables while packets are under way"
    return "flows of more packets: the first of each are the VNF's to decide"


RULES = (offload,)
