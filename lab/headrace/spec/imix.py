# SPDX-License-Identifier: Apache-2.0
"""Frame sizes: one size, a preset of a known tool, or a mix given by its genome (RFC 6985).

A genome is written `{genome: aab}` and never bare: its letters spell words, and a preset's name
that is mistyped would be one. All sizes count the FCS, as RFC 2544 does.
"""

from __future__ import annotations

import zlib
from functools import reduce
from math import gcd
from typing import Any

from pydantic import Field, model_validator

from headrace.spec.base import Spec

FRAME_MIN = 64
FRAME_MAX = 9018

# RFC 6985 section 4, table 1; `z` is the size that the user names.
GENOME_SIZES = {
    "a": 64,
    "b": 128,
    "c": 256,
    "d": 512,
    "e": 1024,
    "f": 1280,
    "g": 1518,
    "h": 2112,
    "i": 9000,
}

# The tools' "IMIX" differ, so a preset says whose it is: {size with FCS: weight}.
PRESETS: dict[str, tuple[str, dict[int, int]]] = {
    "nfvbench": ("NFVbench: 64, 594 and 1518 bytes as 7:4:1", {64: 7, 594: 4, 1518: 1}),
    "trex": (
        "TRex stl/imix.py: 60, 590 and 1514 bytes and FCS as 28:20:4",
        {64: 28, 594: 20, 1518: 4},
    ),
    "csit": ("FD.io CSIT IMIX_v4_1: 64, 570 and 1518 bytes as 28:16:4", {64: 28, 570: 16, 1518: 4}),
}


def spread_evenly(weights: dict[int, int]) -> tuple[int, ...]:
    """The shortest sequence with these weights in which each size is spread as evenly as can be.

    A tool that runs one stream per size interleaves them so; all small frames first, then all large
    ones, would be a different load on every queue.
    """
    divisor = reduce(gcd, weights.values())
    parts = {size: weight // divisor for size, weight in weights.items()}
    total = sum(parts.values())
    credit = dict.fromkeys(parts, 0)
    sequence = []
    for _ in range(total):
        for size, weight in parts.items():
            credit[size] += weight
        chosen = max(credit, key=lambda size: credit[size])
        credit[chosen] -= total
        sequence.append(chosen)
    return tuple(sequence)


def genome_sizes(genome: str, custom: int | None) -> tuple[int, ...]:
    """The frame sizes of a genome in its order: RFC 6985 means the sequence, not the shares."""
    sizes = []
    for position, letter in enumerate(genome):
        if letter == "z":
            if custom is None:
                raise ValueError("the genome uses z: give its size, as {genome: aaz, z: 700}")
            sizes.append(custom)
        elif letter in GENOME_SIZES:
            sizes.append(GENOME_SIZES[letter])
        else:
            known = ", ".join(f"{k}={v}" for k, v in GENOME_SIZES.items())
            raise ValueError(
                f"letter {letter!r} at position {position + 1} is no RFC 6985 size; "
                f"allowed: {known}, z=custom"
            )
    return tuple(sizes)


class Frame(Spec):
    """A workload's frame sizes. Written as `64`, `nfvbench`, `{genome: aaaaaaabbbbg}`, or `{mix:
    {64: 7, 594: 4}}`, sizes and their weights, spread evenly."""

    name: str
    sizes: tuple[int, ...] = Field(min_length=1, max_length=64)
    whose: str = ""

    @property
    def mean_bytes(self) -> float:
        return sum(self.sizes) / len(self.sizes)

    @model_validator(mode="before")
    @classmethod
    def _from_short(cls, value: Any) -> Any:
        if isinstance(value, Frame):
            return value
        if isinstance(value, dict) and set(value) >= {"name", "sizes"}:
            return value
        return _parse(value)

    @model_validator(mode="after")
    def _in_range(self) -> Frame:
        for size in self.sizes:
            if not FRAME_MIN <= size <= FRAME_MAX:
                raise ValueError(
                    f"frame size {size} is out of range; "
                    f"allowed: {FRAME_MIN} to {FRAME_MAX} bytes, FCS included"
                )
        return self


_ALLOWED = (
    f"a frame size ({FRAME_MIN} to {FRAME_MAX}), one of {', '.join(PRESETS)}, "
    "an RFC 6985 genome as {genome: aaaaaaabbbbg} or {genome: aaz, z: 700}, or "
    "{mix: {64: 7, 594: 4}}"
)


def _parse(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        raise ValueError(f"allowed: {_ALLOWED}")
    if isinstance(value, int):
        return {"name": str(value), "sizes": (value,)}
    if isinstance(value, str) and value in PRESETS:
        whose, weights = PRESETS[value]
        return {"name": f"imix-{value}", "sizes": spread_evenly(weights), "whose": whose}
    if isinstance(value, str) and value[:1] in tuple("0123456789.+-"):
        raise ValueError(f"is no whole number; allowed: {_ALLOWED}")  # YAML reads 1e9 as text
    if isinstance(value, str):
        raise ValueError(f"there is no such mix; allowed: {_ALLOWED}")
    if isinstance(value, dict) and "genome" in value and set(value) <= {"genome", "z"}:
        genome, custom = value["genome"], value.get("z")
        if isinstance(genome, str) and genome and (custom is None or type(custom) is int):
            name = f"imix-{genome}" + (f"-z{custom}" if custom is not None else "")
            return {"name": name, "sizes": genome_sizes(genome, custom), "whose": "RFC 6985"}
    if isinstance(value, dict) and set(value) == {"mix"} and isinstance(value["mix"], dict):
        return _mixed(value["mix"])
    raise ValueError(f"allowed: {_ALLOWED}")


def _mixed(mix: dict[Any, Any]) -> dict[str, Any]:
    weights = [*mix, *mix.values()]
    if not mix or any(type(one) is not int or one < 1 for one in weights):
        raise ValueError("mix: allowed: sizes and their weights, as {64: 7, 594: 4, 1518: 1}")
    sizes = spread_evenly(mix)
    if len(sizes) > 64:
        raise ValueError(f"mix: {len(sizes)} frames until it begins again; allowed: at most 64")
    name = "-".join(f"{size}x{weight}" for size, weight in sorted(mix.items()))
    if len(mix) > 4:
        name = f"{len(mix)}-sizes-{zlib.crc32(name.encode()):08x}"
    return {"name": f"imix-{name}", "sizes": sizes}
