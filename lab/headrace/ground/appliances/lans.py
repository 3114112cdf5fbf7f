# SPDX-License-Identifier: Apache-2.0
"""The network of each LAN: one of the benchmarking range, or the one that an appliance has."""

from __future__ import annotations

from ipaddress import IPv4Address

from headrace.errors import BadInput, bad_value

_FIRST = int(IPv4Address("198.18.0.0"))


class Lans:
    """The /24 of each LAN."""

    def __init__(self) -> None:
        self._fixed: dict[int, tuple[int, str]] = {}

    def fix(self, lan: int, address: str, who: str) -> None:
        """An appliance's own address decides; two that do not agree are an error."""
        base = int(IPv4Address(address)) & ~0xFF
        taken, by = self._fixed.setdefault(lan, (base, who))
        if taken != base:
            raise bad_value(
                who, address, problem=f"address clash: {by} made that network {self.prefix(lan)}",
                allowed="addresses of one /24 at both ends of a network",
            )  # fmt: skip
        for other, (used, by_other) in self._fixed.items():
            if other != lan and used == base:
                raise bad_value(
                    who, address,
                    problem=f"address clash: {by_other} has another network of {self.prefix(lan)}",
                    allowed="another /24 for each network",
                )  # fmt: skip

    def no_overlap(self, count: int) -> None:
        """An appliance's network may be one that another LAN has by default."""
        for lan, (base, who) in self._fixed.items():
            if any(other != lan and self._base(other) == base for other in range(count)):
                raise BadInput(
                    f"{who}: address clash: the network {self.prefix(lan)} is behind another VNF "
                    "already; allowed: one outside 198.18.0.0/15"
                )

    def host(self, lan: int, number: int) -> str:
        return str(IPv4Address(self._base(lan) + number))

    def prefix(self, lan: int) -> str:
        return f"{IPv4Address(self._base(lan))}/24"

    def _base(self, lan: int) -> int:
        return self._fixed[lan][0] if lan in self._fixed else _FIRST + 256 * lan
