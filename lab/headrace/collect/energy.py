# SPDX-License-Identifier: Apache-2.0
"""What the processors' packages and their memory have taken, by RAPL's zones (Linux,
Documentation/power/powercap). Not tried on hardware: no machine of ours shows its guests a zone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.collect.collector import MetricValue, number, text

_ZONES = Path("/sys/class/powercap")
# Of the two drivers that show a package the one by MSR: AMD's processors have it, too.
_PATTERN = "intel-rapl:*"


@dataclass
class _Zone:
    """`grown`: since it was opened, as the zone's own figure begins anew behind `most`."""

    place: str
    file: Path
    most: float
    last: float
    grown: float = 0.0

    def read(self) -> float | None:
        now = number(self.file)
        if now is None:
            return None
        self.grown += now - self.last if now >= self.last else now + self.most + 1 - self.last
        self.last = now
        return self.grown


class EnergyZones:
    """`energy_uj`, a counter by zone: `package-0`, and in it `package-0 dram`. A zone begins anew
    after minutes (262 kJ of a package at 200 W are 22): it is to be read more often."""

    def __init__(self, zones: Path = _ZONES) -> None:
        self.refused: str | None = None
        self._zones: list[_Zone] = []
        folders = sorted(zones.glob(_PATTERN))
        if not folders:
            self.refused = f"no RAPL zone below {zones}: a virtual machine, or no driver"
        for folder in folders:
            self._open(folder)
        if folders and not self._zones:
            self.refused = f"{folders[0]}/energy_uj cannot be read; root can"

    def _open(self, folder: Path) -> None:
        first, most = (number(folder / name) for name in ("energy_uj", "max_energy_range_uj"))
        if first is None or most is None:
            return
        above, parts = folder.name.rpartition(":")[0], [_name(folder)]
        if ":" in above:  # a part of a package: intel-rapl:0:1
            parts.insert(0, _name(folder.with_name(above)))
        self._zones.append(_Zone(" ".join(parts), folder / "energy_uj", most, first))

    def read(self) -> Iterator[MetricValue]:
        for zone in self._zones:
            if (grown := zone.read()) is not None:
                yield MetricValue("energy_uj", zone.place, grown)


def _name(folder: Path) -> str:
    return (text(folder / "name") or folder.name).strip()
