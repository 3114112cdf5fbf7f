# SPDX-License-Identifier: Apache-2.0
"""Which NICs are free for DPDK: never one that may carry this machine's own traffic."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.doctor.network import _af_xdp, _nics, _pci_nics


def nic(devices: Path, driver: str, operstate: str = "") -> None:
    device = devices / "0000:00:03.0"
    device.mkdir(parents=True)
    (device / "class").write_text("0x020000\n")
    if driver:
        (devices.parent / "drivers" / driver).mkdir(parents=True)
        (device / "driver").symlink_to(devices.parent / "drivers" / driver)
    if operstate:
        link = device / "net" / "eth0"
        link.mkdir(parents=True)
        (link / "operstate").write_text(f"{operstate}\n")


@pytest.mark.parametrize(
    ("driver", "operstate", "offered"),
    [
        ("ixgbe", "up", False),
        ("ixgbe", "down", True),
        ("", "", True),  # nobody has it
        ("virtio-pci", "", False),  # as a container sees its host's
        ("vfio-pci", "", False),  # DPDK has it already
        ("mlx5_core", "up", False),  # DPDK polls it beside its driver
        ("mlx5_core", "", False),  # but not without its interface, which a container has not
    ],
)
def test_binding_is_advised_of_what_nobody_uses(
    driver: str, operstate: str, offered: bool, tmp_path: Path
) -> None:
    nic(tmp_path / "devices", driver, operstate)
    check = _nics(_pci_nics(tmp_path / "devices"))
    assert (check.mend is not None and "vfio-pci 0000:00:03.0" in check.mend) == offered
    assert (check.status == "ok") == (
        (driver, operstate) in [("vfio-pci", ""), ("mlx5_core", "up")]
    )


def test_what_only_root_sees_is_asked_for_by_a_command_that_sudo_finds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr("headrace.doctor.network.socket.socket", refused)
    check = _af_xdp()
    assert check.status == "unknown"
    assert check.mend == "sudo $(command -v headrace) doctor"
