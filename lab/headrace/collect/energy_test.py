# SPDX-License-Identifier: Apache-2.0
"""RAPL's zones as the kernel's documentation has them; no machine of ours has real ones."""

from __future__ import annotations

from pathlib import Path

from headrace.collect.energy import EnergyZones

MOST = 262_143_328_850


def zone(folder: Path, name: str, energy: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "name").write_text(f"{name}\n")
    (folder / "max_energy_range_uj").write_text(f"{MOST}\n")
    (folder / "energy_uj").write_text(f"{energy}\n")


def read(zones: EnergyZones) -> dict[str, float]:
    assert zones.refused is None
    return {one.place: one.value for one in zones.read()}


def test_two_packages_and_their_memory(tmp_path: Path) -> None:
    """Growth since it began, each zone under its package's name; what the other driver shows of the
    same package is not counted twice."""
    zone(tmp_path / "intel-rapl:0", "package-0", 1000)
    zone(tmp_path / "intel-rapl:0:0", "dram", 10)
    zone(tmp_path / "intel-rapl:1", "package-1", 5)
    zone(tmp_path / "intel-rapl-mmio:0", "package-0", 1000)
    zones = EnergyZones(tmp_path)
    zone(tmp_path / "intel-rapl:0", "package-0", 4500)
    zone(tmp_path / "intel-rapl:0:0", "dram", 17)
    assert read(zones) == {"package-0": 3500, "package-0 dram": 7, "package-1": 0}


def test_a_zone_that_begins_anew_goes_on(tmp_path: Path) -> None:
    """100 uJ before its end, and 50 uJ behind it, with 0 between them: 151."""
    zone(tmp_path / "intel-rapl:0", "package-0", MOST - 100)
    zones = EnergyZones(tmp_path)
    zone(tmp_path / "intel-rapl:0", "package-0", 50)
    assert read(zones) == {"package-0": 151}
    zone(tmp_path / "intel-rapl:0", "package-0", 60)
    assert read(zones) == {"package-0": 161}


def test_why_there_is_none(tmp_path: Path) -> None:
    assert "no RAPL zone" in (EnergyZones(tmp_path).refused or "")
    (tmp_path / "intel-rapl:0").mkdir()
    assert "cannot be read; root can" in (EnergyZones(tmp_path).refused or "")
