# SPDX-License-Identifier: Apache-2.0
"""One set of rules for two firewalls: headrace's `firewall` and nftables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from support.middlebox import MARKER, MARKER_PROTOCOL, PORTS, Side

_NFT_NAMES = {"icmp6": "icmpv6"}


@dataclass(frozen=True)
class Rule:
    """What may begin a flow, or may not, on the side where its first packet comes in."""

    side: Side
    permit: bool
    proto: str
    src: str | None = None
    dst: str | None = None
    dport: tuple[int, int] | None = None

    def headrace(self) -> dict[str, Any]:
        rule: dict[str, Any] = {"action": "permit" if self.permit else "deny", "proto": self.proto}
        rule |= {key: value for key in ("src", "dst") if (value := getattr(self, key))}
        return rule | ({"dport": list(self.dport)} if self.dport else {})

    def nftables(self) -> str:
        parts = [f'iifname "{PORTS[self.side]}"']
        for key, name in (("src", "saddr"), ("dst", "daddr")):
            if value := getattr(self, key):
                parts.append(f"{'ip6' if ':' in value else 'ip'} {name} {value}")
        proto = _NFT_NAMES.get(self.proto, self.proto)
        parts.append(f"meta l4proto {proto}")
        if self.dport:
            parts.append(f"{proto} dport {self.dport[0]}-{self.dport[1]}")
        return " ".join([*parts, "accept" if self.permit else "drop"])


def firewall_params(rules: Sequence[Rule]) -> dict[str, Any]:
    """Default deny on both sides; the test's marker passes."""

    def of(side: Side) -> list[dict[str, Any]]:
        source, destination = MARKER[side]
        marker = {
            "action": "permit", "proto": str(MARKER_PROTOCOL), "src": source, "dst": destination
        }  # fmt: skip
        return [marker, *(rule.headrace() for rule in rules if rule.side == side)]

    return {"rules": of("inside"), "reverse_rules": of("outside")}


def forward_ruleset(rules: Sequence[Rule]) -> str:
    """The stateful filter of the nftables wiki, with our rules for what may begin a flow."""
    lines = "\n    ".join(rule.nftables() for rule in rules)
    return f"""
table inet filter {{
  chain raw {{
    type filter hook prerouting priority raw; policy accept;
    meta l4proto {MARKER_PROTOCOL} notrack
  }}
  chain forward {{
    type filter hook forward priority filter; policy drop;
    meta l4proto {MARKER_PROTOCOL} accept
    ct state invalid drop
    ct state established,related accept
    {lines}
  }}
}}
"""
