# SPDX-License-Identifier: Apache-2.0
"""Which NIC's virtual functions a study gets, and to whom PCI functions go; sysfs, which tells, is
here a folder of its form."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import BadInput
from headrace.host.sriov import choose_nic, choose_nics, no_vfio, physical_functions, rebind

NICS = {"0000:01:00.0": ("eth0", 0, 0), "0000:41:00.0": ("eth1", 7, 0)}
MORE = {"0000:81:00.0": ("eth2", 63, 8), "0000:82:00.0": (None, 63, 0)}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two NICs with functions, one without, one that the kernel has no interface of."""
    devices = tmp_path / "sys/bus/pci/devices"
    for address, (name, total, count) in (NICS | MORE).items():
        device = devices / address
        device.mkdir(parents=True)
        (device / "class").write_text("0x020000\n")
        (device / "numa_node").write_text("1\n" if total else "-1\n")
        if name is not None:
            (device / "net" / name).mkdir(parents=True)
        if total:
            (device / "sriov_totalvfs").write_text(f"{total}\n")
        for index in range(count):
            function = devices / f"0000:81:10.{index}"
            function.mkdir()
            (device / f"virtfn{index}").symlink_to(function)
    return tmp_path


def test_only_nics_with_functions_count(root: Path) -> None:
    pfs = physical_functions(root)
    assert [(pf.name, pf.total, pf.enabled, pf.node) for pf in pfs] == [
        ("eth1", 7, 0, 1),
        ("eth2", 63, 8, 1),
    ]
    assert pfs[1].vf_address(3) == "0000:81:10.3"
    assert pfs[0].vf_address(0) is None and pfs[1].vf_name(0) is None


@pytest.mark.parametrize(
    ("wanted", "needed", "name"), [(None, 7, "eth1"), (None, 8, "eth2"), ("eth2", 1, "eth2")]
)
def test_the_first_that_has_enough(root: Path, wanted: str | None, needed: int, name: str) -> None:
    """Where functions are made already those are used, and never more: somebody chose so."""
    assert choose_nic(wanted, needed, root).name == name


@pytest.mark.parametrize(
    ("wanted", "needed", "words"),
    [
        ("eth0", 1, "deployment.pf: got 'eth0'"),
        (None, 9, "needs 9 virtual functions; allowed: as many as a NIC here has (8)"),
        ("eth1", 8, "(7)"),
    ],
)
def test_what_is_refused(root: Path, wanted: str | None, needed: int, words: str) -> None:
    with pytest.raises(BadInput) as raised:
        choose_nic(wanted, needed, root)
    assert words in str(raised.value)


def test_functions_of_several_nics(root: Path) -> None:
    """As they are named, each as many as it can have; one that has enough has all of them."""
    each = [pf.name for pf in choose_nics(("eth2", "eth1"), 10, root)]
    assert each == ["eth2"] * 8 + ["eth1"] * 2
    assert {pf.name for pf in choose_nics((), 8, root)} == {"eth2"}
    with pytest.raises(BadInput, match=r"got eth1, eth2; a chain needs 16 .* they have \(15\)"):
        choose_nics(("eth1", "eth2"), 16, root)
    with pytest.raises(BadInput, match="got 'eth9'"):
        choose_nics(("eth1", "eth9"), 2, root)


def test_a_machine_without_any(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no NIC with SR-IOV functions .* allowed here: veb"):
        choose_nic(None, 2, tmp_path, instead="veb")


def test_a_function_changes_its_driver(root: Path) -> None:
    device = root / "sys/bus/pci/devices/0000:81:10.0"
    driver = root / "sys/bus/pci/drivers/igbvf"
    driver.mkdir(parents=True)
    (device / "driver").symlink_to(driver)
    rebind(device, "vfio-pci")
    assert (device / "driver_override").read_text() == "vfio-pci\n"
    assert (driver / "unbind").read_text() == device.name
    assert (root / "sys/bus/pci/drivers_probe").read_text() == device.name


def test_vfio_takes_its_driver_and_an_iommu(tmp_path: Path) -> None:
    assert no_vfio(tmp_path) == "the driver vfio-pci is not loaded (`modprobe vfio-pci`)"
    (tmp_path / "sys/bus/pci/drivers/vfio-pci").mkdir(parents=True)
    assert "no IOMMU" in str(no_vfio(tmp_path))
    (tmp_path / "sys/kernel/iommu_groups/0").mkdir(parents=True)
    assert no_vfio(tmp_path) is None
