# SPDX-License-Identifier: Apache-2.0
"""Of all located packets of a run, those that the chain received."""

from __future__ import annotations

from headrace.measure.profile.studied import Run
from headrace.record import Located


def located(place: str, segment: str, behind_first: bool = False) -> Located:
    return Located(place=place, segment=segment, behind_first=behind_first, samples=1)


def run(*found: Located) -> Run:
    return Run(1e6, 0.0, {}, {}, 0.0, 0.0, found)


def test_the_generator_s_own_packets_are_not_the_chain_s() -> None:
    chain = located("acl", "chain")
    others = (located("generator", "generator"), located("sink", "sink"))
    behind = located("lb", "chain", behind_first=True)
    assert run(others[0], behind, chain, others[1]).received == chain
    assert run(*others).received is None
