# SPDX-License-Identifier: Apache-2.0
"""The rules of an `acl`, as its parameters and ClassBench files give them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.spec.document import Document
from headrace.spec.lines import lines_of

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
PORTS = (0, 65535)  # all of them
_PROTOCOLS = {"tcp": 6, "udp": 17, "icmp": 1, "icmp6": 58, "sctp": 132, "gre": 47, "esp": 50,
              "ah": 51}  # fmt: skip
_OTHER = {"permit": "deny", "deny": "permit"}


@dataclass(frozen=True)
class AclRule:
    """None matches everything; a rule that names no ports matches packets without any, too."""

    action: str  # permit, deny
    src: Network | None = None
    dst: Network | None = None
    sport: tuple[int, int] = PORTS
    dport: tuple[int, int] = PORTS
    proto: int | None = None

    @property
    def versions(self) -> tuple[int, ...]:
        """The versions of IP that it can match."""
        given = {one.version for one in (self.src, self.dst) if one is not None}
        return tuple(given or {4, 6}) if len(given) < 2 else ()

    @property
    def names_ports(self) -> bool:
        return (self.sport, self.dport) != (PORTS, PORTS)


def acl_rules(params: Mapping[str, Any], doc: Document) -> list[AclRule]:
    """Rules in their order: those of `rules`, then those of `rules_file`."""
    rules = [_given(one) for one in params.get("rules", ())]
    if (file := params.get("rules_file")) is not None:
        rules += _of_file(doc.resolve(file), params)
    return rules


def _given(one: Mapping[str, Any]) -> AclRule:
    proto = one.get("proto", "any")
    return AclRule(
        action=one["action"], src=_network(one.get("src")), dst=_network(one.get("dst")),
        sport=_range(one.get("sport")), dport=_range(one.get("dport")),
        proto=None if proto == "any" else _PROTOCOLS.get(proto) or int(proto),
    )  # fmt: skip


def _network(text: str | None) -> Network | None:
    return None if text is None else ipaddress.ip_network(text, strict=False)


def _range(ports: list[int] | None) -> tuple[int, int]:
    return (ports[0], ports[-1]) if ports else PORTS


def _of_file(file: Path, params: Mapping[str, Any]) -> Iterator[AclRule]:
    """ClassBench's filters; the engine has read the file before, and found it right."""
    action, every = params.get("file_action", "permit"), params.get("file_alternate", 0)
    number = 0
    for line in lines_of(file):
        words = line.strip().removeprefix("@").split()
        if not words or words[0].startswith("#"):
            continue
        number += 1
        src, dst, *rest = words
        numbers = " ".join(rest).replace(":", " ").split()
        value, _, mask = numbers[4].partition("/")
        yield AclRule(
            action=_OTHER[action] if every and number % every == 0 else action,
            src=_network(src), dst=_network(dst),
            sport=(int(numbers[0]), int(numbers[1])), dport=(int(numbers[2]), int(numbers[3])),
            proto=int(value, 16) if int(mask, 16) else None,
        )  # fmt: skip
