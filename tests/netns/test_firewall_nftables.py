# SPDX-License-Identifier: Apache-2.0
"""`firewall` beside nftables: the same rules, the same packets in turn, the same verdicts.

Where the two differ on purpose, the scenario says so and why, and the difference is checked as
well: docs/nftables.md lists them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from support.conversation import Family, Step, rounds, v4, v6
from support.engine import Engine
from support.judgements import SCENARIOS
from support.middlebox import Box, box_plan, make_router, wire_up, without_hop
from support.netns import Lan
from support.rules import Rule, firewall_params, forward_ruleset

pytestmark = [
    pytest.mark.beside,
    pytest.mark.needs_root,
    pytest.mark.skipif(shutil.which("nft") is None, reason="nftables is not installed"),
]

RULES = [
    Rule("inside", False, "tcp", dst=v4.forbidden),
    Rule("inside", False, "tcp", dst=v6.forbidden),
    Rule("inside", True, "tcp", dport=(80, 90)),
    Rule("inside", True, "udp", dport=(53, 53)),
    Rule("inside", True, "icmp", dst=v4.server),
    Rule("inside", True, "icmp6", dst=v6.server),
    Rule("inside", True, "esp"),
    Rule("outside", True, "tcp", dst=v4.client, dport=(22, 22)),
    Rule("outside", True, "tcp", dst=v6.client, dport=(22, 22)),
]


@contextmanager
def both(
    lan: Lan, start_engine: Callable[..., Engine], cpus: list[int]
) -> Iterator[tuple[Box, Box]]:
    """headrace's box and the kernel's."""
    kernel, ours = wire_up(lan, "k"), wire_up(lan, "h")
    make_router(
        lan, kernel["middle"], forward_ruleset(RULES),
        # Taken up in the middle is what a firewall is there to refuse; headrace's default too.
        nf_conntrack_tcp_loose="0",
    )  # fmt: skip
    boxes = [Box(names["inside"], names["outside"]) for names in (ours, kernel)]
    try:
        with start_engine(
            box_plan(cpus[-1], "firewall", firewall_params(RULES)), netns=ours["middle"]
        ):
            yield boxes[0], boxes[1]
            for box in boxes:
                box.assert_quiet()
    finally:
        for box in boxes:
            box.close()


def passed(packet: bytes, came: list[bytes], who: str) -> bool:
    """Whether the packet came through, and came through as it was."""
    assert [without_hop(p) for p in came] in ([], [without_hop(packet)]), f"{who}: changed"
    return bool(came)


def compare(boxes: tuple[Box, Box], steps: list[tuple[str, Step]]) -> list[str]:
    """What was not as expected of one round of steps, all from one side."""
    side, packets = steps[0][1].side, [bytes(step.packet) for _, step in steps]
    for box in boxes:
        box.give(side, packets)
    ours, theirs = (box.take(side) for box in boxes)
    wrong = []
    for (name, step), packet, one, other in zip(steps, packets, ours, theirs, strict=True):
        verdicts = passed(packet, one, f"{name}, {step}"), passed(packet, other, "nftables")
        if verdicts != step.verdicts:
            wrong.append(f"{name}, {step}: (headrace, nftables) {verdicts}, not {step.verdicts}")
    return wrong


@pytest.mark.parametrize("family", [v4, v6], ids=["ipv4", "ipv6"])
def test_same_verdicts(
    family: Family, lan: Lan, start_engine: Callable[..., Engine], cpus: list[int]
) -> None:
    with both(lan, start_engine, cpus) as boxes:
        wrong = [line for steps in rounds(SCENARIOS, family) for line in compare(boxes, steps)]
    assert not wrong, "\n" + "\n".join(wrong)
