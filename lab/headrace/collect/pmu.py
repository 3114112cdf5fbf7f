# SPDX-License-Identifier: Apache-2.0
"""What a core's PMU can say of a packet: cycles, stalls, and where its loads were served from.

Stalls and sources are events of a processor family, not of the architecture; where they are not
known, or the PMU refuses them, they are left out. What is counted is the whole lcore's.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from headrace.collect.perf import (
    CACHE_MISSES,
    CACHE_REFERENCES,
    CYCLES,
    HARDWARE,
    INSTRUCTIONS,
    RAW,
    PerfCounter,
    PerfRefused,
)
from headrace.model.stalls import STALLED, STALLED_BEHIND

Event = tuple[int, int]  # type and config of perf_event_attr

GENERIC: Mapping[str, Event] = {
    "cycles": (HARDWARE, CYCLES),
    "instructions": (HARDWARE, INSTRUCTIONS),
    "cache_references": (HARDWARE, CACHE_REFERENCES),
    "cache_misses": (HARDWARE, CACHE_MISSES),
}
_INVERT, _AT_LEAST_ONE = 1 << 23, 1 << 24  # perf_event_attr.config: invert; counter mask 1


def _amd(source: int) -> Event:
    """PMCx043, demand data cache fills from the system, by source (AMD PPR for family 19h). Lines
    of another core in the same complex count as the last level's, whose directory finds them."""
    return (RAW, 0x43 | source << 8)


def _intel(umask: int) -> Event:
    """MEM_LOAD_RETIRED: loads by the level that had their line (Intel SDM 3, chapter 20)."""
    return (RAW, 0xD1 | umask << 8)


# "No micro-operation retired" bounds what a core waits for memory from above: for nothing else do
# pollers wait much. Intel tells stalls with a load outstanding apart.
_AMD: Mapping[str, Event] = {
    STALLED: (RAW, 0xC1 | _INVERT | _AT_LEAST_ONE),
    "loads_l2": _amd(0x01),
    "loads_llc": _amd(0x02),
    "loads_other": _amd(0x14),
    "loads_memory": _amd(0x48),
}


def _stalls(event: int, *levels: tuple[int, int]) -> dict[str, Event]:
    """Cycles without execution while a load misses the first, second and last level, by unit mask
    and counter mask."""
    return {
        name: (RAW, event | umask << 8 | mask << 24)
        for name, (umask, mask) in zip(STALLED_BEHIND, levels, strict=True)
    }


# Up to Ice Lake CYCLE_ACTIVITY, STALLS_MEM_ANY and STALLS_L1D_MISS to _L3_MISS; from Golden Cove on
# EXE_ACTIVITY.BOUND_ON_LOADS and MEMORY_ACTIVITY.
_INTEL_STALLS: Mapping[str, Event] = {
    STALLED: (RAW, 0xA3 | 0x14 << 8 | 0x14 << 24),
    **_stalls(0xA3, (0x0C, 0x0C), (0x05, 0x05), (0x06, 0x06)),
}
_GOLDEN_COVE_STALLS: Mapping[str, Event] = {
    STALLED: (RAW, 0xA6 | 0x21 << 8 | 0x05 << 24),
    **_stalls(0x47, (0x03, 0x03), (0x05, 0x05), (0x09, 0x09)),
}
# Sapphire, Emerald and Granite Rapids; Alder and Raptor Lake.
_GOLDEN_COVE = (0x8F, 0xCF, 0xAD, 0xAE, 0x97, 0x9A, 0xB7, 0xBA, 0xBF)
_INTEL: Mapping[str, Event] = {
    "loads_l2": _intel(0x02),
    "loads_llc": _intel(0x04),
    "loads_memory": _intel(0x20),  # or another core's: beyond the last level
}
_AMD_FAMILIES = (0x17, 0x19, 0x1A)
_INTEL_FAMILY = 6


def events(cpuinfo: str | None = None) -> dict[str, Event]:
    """The events of this processor; `cpuinfo`: the text of /proc/cpuinfo."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8") if cpuinfo is None else cpuinfo
    fields: dict[str, str] = {}
    for line in text.split("\n\n", 1)[0].splitlines():
        key, _, value = line.partition(":")
        fields[key.strip()] = value.strip()
    vendor, family = fields.get("vendor_id", ""), int(fields.get("cpu family", "-1"))
    if vendor == "AuthenticAMD" and family in _AMD_FAMILIES:
        return {**GENERIC, **_AMD}
    if vendor == "GenuineIntel" and family == _INTEL_FAMILY:
        model = int(fields.get("model", "0"))
        stalls = _GOLDEN_COVE_STALLS if model in _GOLDEN_COVE else _INTEL_STALLS
        return {**GENERIC, **stalls, **_INTEL}
    return dict(GENERIC)


@contextmanager
def counting(cpu: int) -> Iterator[Callable[[], dict[str, float]]]:
    """Readings of all events of one CPU. Refused where there is no PMU; those of the processor's
    own that it does not have are left out."""
    opened: dict[str, PerfCounter] = {}
    known = events() if platform.machine() == "x86_64" else dict(GENERIC)
    try:
        for name, (kind, config) in known.items():
            try:
                opened[name] = PerfCounter(kind, config, cpu)
            except PerfRefused:
                if name in GENERIC:
                    raise
        yield lambda: {name: counter.read() for name, counter in opened.items()}
    finally:
        for counter in opened.values():
            counter.close()
