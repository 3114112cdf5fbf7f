# SPDX-License-Identifier: Apache-2.0
"""The traffic: frame sizes, flows, headers; or a header trace, or a pcap replayed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from headrace.spec.base import Spec
from headrace.spec.deployment import Count
from headrace.spec.imix import Frame

Varying = Literal["src_ip", "dst_ip", "src_port", "dst_port"]


def _listed(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


class Flows(Spec):
    """How many flows there are, in which header fields they differ, in which order they come."""

    count: Annotated[Count, Field(ge=1, le=1 << 31)] = 1024
    vary: tuple[Varying, ...] = ("src_ip", "src_port")
    order: Literal["round-robin", "random", "zipf"] = "round-robin"
    zipf_exponent: Annotated[float, Field(gt=0, le=5)] = 1.0
    seed: Annotated[Count, Field(ge=0, lt=1 << 32)] = 1

    @model_validator(mode="before")
    @classmethod
    def _from_short(cls, value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            return {"count": value}
        if not isinstance(value, dict | Flows):
            raise ValueError("allowed: a count, or {count: 1000, vary: [src_ip], ...}")
        return value

    @model_validator(mode="after")
    def _as_told(self) -> Flows:
        """What would change nothing is a mistake."""
        if len(set(self.vary)) != len(self.vary):
            raise ValueError(f"vary: {list(self.vary)}; allowed: each field once")
        if not self.vary and self.count > 1:
            raise ValueError(
                f"vary: [] leaves {self.count} flows with the same headers; allowed: at least one "
                "field, or a count of 1"
            )
        if "zipf_exponent" in self.model_fields_set and self.order != "zipf":
            raise ValueError(f"zipf_exponent: order is {self.order}; allowed: with `order: zipf`")
        return self


class Headers(Spec):
    """The headers of flow 0; addresses and ports that vary count up from here."""

    l3: Literal["ipv4", "ipv6"] = "ipv4"
    l4: Literal["udp", "tcp"] = "udp"
    src_ip: str | None = None
    dst_ip: str | None = None
    src_port: Annotated[Count, Field(ge=0, le=65535)] | None = None
    dst_port: Annotated[Count, Field(ge=0, le=65535)] | None = None
    src_mac: str | None = None
    dst_mac: Annotated[tuple[str, ...], BeforeValidator(_listed), Field(max_length=1024)] = ()
    vlan: Annotated[Count, Field(ge=0, le=4094)] | None = None
    dscp: Annotated[Count, Field(ge=0, le=63)] | None = None
    ttl: Annotated[Count, Field(ge=1, le=255)] | None = None


class Workload(Spec):
    frame: Annotated[
        tuple[Frame, ...], BeforeValidator(_listed), Field(min_length=1, max_length=100)
    ] = (Frame(name="64", sizes=(64,)),)
    flows: Flows = Flows()
    headers: Headers = Headers()
    dst_ips_file: Path | None = None
    tuples_file: Path | None = None
    pcap: Path | None = None
    direction: Literal["forward", "reverse", "both"] = "forward"
    stamp: bool = True

    @model_validator(mode="after")
    def _one_origin(self) -> Workload:
        given = [
            key for key in ("dst_ips_file", "tuples_file", "pcap") if getattr(self, key) is not None
        ]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} exclude each other; allowed: one of them")
        made = [key for key in ("frame", "flows", "headers") if key in self.model_fields_set]
        if self.pcap is not None and made:
            raise ValueError(
                f"{' and '.join(made)} beside pcap, whose packets are sent as they are; allowed: "
                "either"
            )
        return self

    @property
    def stamped(self) -> bool:
        """A replayed capture keeps its payload, so nothing in it can be stamped."""
        return self.stamp and self.pcap is None
