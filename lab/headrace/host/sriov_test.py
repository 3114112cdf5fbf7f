# SPDX-License-Identifier: Apache-2.0
"""Which NIC's virtual functions a study gets, and to whom PCI functions go; sysfs, which tells, is
here a folder of its form."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.errors import BadInput, HeadraceError
from headrace.host import sriov
from headrace.host.ledger import FILE, Ledger
from headrace.host.sriov import (
    Functions,
    choose_nic,
    choose_nics,
    no_vfio,
    physical_functions,
    rebind,
    restore_rate,
)

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


class Nic:
    """What ip(8) does to a NIC whose driver keeps rates in steps: as that prints them."""

    def __init__(self, rates: dict[int, int], step: int = 1) -> None:
        self.rates, self.step = rates, step
        self.words: list[tuple[str, ...]] = []

    def each(self, commands: Sequence[tuple[str, ...]]) -> None:
        for one in commands:
            self(*one)

    def __call__(self, *words: str) -> str:
        self.words.append(words)
        if "show" in words:
            functions = [
                {"vf": index, "rate": {"max_tx": rate, "min_tx": 0}, "spoofchk": True}
                for index, rate in self.rates.items()
            ]
            return json.dumps([{"ifname": "eth2", "vfinfo_list": functions}])
        told = dict(itertools.pairwise(words))
        if "max_tx_rate" in told:
            if not self.step:
                raise HeadraceError("ip link set dev eth2: RTNETLINK answers: Not supported")
            self.rates[int(told["vf"])] = int(told["max_tx_rate"]) // self.step * self.step
        return ""


MACS = [f"02:00:00:00:00:0{i}" for i in range(2)]


def handed(root: Path, name: str, nic: Nic, monkeypatch: pytest.MonkeyPatch) -> Functions:
    """Two functions of a NIC; eth2 had its own before."""
    monkeypatch.setattr(sriov, "ip", nic)
    monkeypatch.setattr(sriov, "ip_each", nic.each)
    monkeypatch.setattr(sriov, "_is_up", lambda _: True)
    (root / "run").mkdir()
    [pf] = (pf for pf in physical_functions(root) if pf.name == name)
    functions = Functions(pf, 2, Ledger(root / "run"))
    for index in range(2):
        function = pf.device / f"virtfn{index}"
        if not function.exists():
            function.mkdir()
        (function / "net" / f"{name}v{index}").mkdir(parents=True)
    nic.each([one for mac in MACS for one in functions.moving(f"ns-{mac[-1]}", "vf", mac)])
    return functions


def noted(root: Path) -> list[tuple[str, str]]:
    lines = map(json.loads, (root / "run" / FILE).read_text().splitlines())
    return [(one["kind"], one["name"]) for one in lines]


def test_functions_are_noted_where_they_were_there_before(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that a run has made go with it, in one step."""
    nic = Nic({0: 0, 1: 40})
    handed(root, "eth2", nic, monkeypatch).hold_to({MACS[1]: 2500})
    assert noted(root) == [
        ("vf", "eth2:0:eth2v0"),
        ("vf", "eth2:1:eth2v1"),
        ("vf-rate", "eth2:1:40"),
    ]
    moved = [words for words in nic.words if "netns" in words]
    assert moved == [
        ("link", "set", "dev", f"eth2v{i}", "netns", f"ns-{i}", "name", "vf") for i in range(2)
    ]


def test_of_functions_that_a_run_makes_all_go(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    functions = handed(root, "eth1", Nic({0: 0, 1: 0}), monkeypatch)
    functions.hold_to({MACS[1]: 2500})
    assert noted(root) == [("vfs", "eth1")]
    assert (functions.pf.device / "sriov_numvfs").read_text() == "2"


def test_a_driver_knows_its_address_before_the_nic_does(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the physical function has set it the driver may not any more."""
    nic = Nic({})
    handed(root, "eth1", nic, monkeypatch)
    first = [words[3:] for words in nic.words if MACS[0] in words or "eth1v0" in words]
    own = "mac", MACS[0], "vlan", "0", "spoofchk", "on"
    assert first == [
        ("eth1v0", "down"),
        ("eth1v0", "address", MACS[0]),
        ("eth1", "vf", "0", *own),
        ("eth1v0", "netns", "ns-0", "name", "vf"),
    ]


def test_rates_are_kept_and_given_back(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What functions had before is in the ledger before it is changed; the NIC is asked twice,
    however many there are."""
    nic = Nic({0: 0, 1: 40})
    handed(root, "eth2", nic, monkeypatch).hold_to({MACS[0]: 500, MACS[1]: 2500})
    assert nic.rates == {0: 500, 1: 2500}
    assert sum("show" in words for words in nic.words) == 2
    rates = [name for kind, name in noted(root) if kind == "vf-rate"]
    assert rates == ["eth2:0:0", "eth2:1:40"]
    assert all(restore_rate(name) for name in rates) and nic.rates == {0: 0, 1: 40}
    assert not any(restore_rate(name) for name in rates)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (0, r"keeps a virtual function to no rate \(rate_cap_gbps\): ip .* Not supported"),
        (1000, "keeps virtual function 1 to 2000 Mbit/s, and not to the 2500 of its rate_cap_gbps"),
    ],
)
def test_a_rate_that_a_nic_does_not_keep_ends_the_run(
    root: Path, monkeypatch: pytest.MonkeyPatch, step: int, words: str
) -> None:
    functions = handed(root, "eth2", Nic({1: 0}, step), monkeypatch)
    with pytest.raises(HeadraceError, match=f"eth2: {words}"):
        functions.hold_to({MACS[1]: 2500})
