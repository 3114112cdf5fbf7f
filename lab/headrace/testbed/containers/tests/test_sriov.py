# SPDX-License-Identifier: Apache-2.0
"""Which NIC's virtual functions a study gets; sysfs, which tells, is here a folder of its form."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import BadInput
from headrace.testbed.containers.sriov import choose, physical_functions


@pytest.fixture
def networks(tmp_path: Path) -> Path:
    for name, total, made in (("eth0", None, None), ("eth1", 7, 0), ("eth2", 63, 8)):
        device = tmp_path / name / "device"
        device.mkdir(parents=True)
        if total is not None:
            (device / "sriov_totalvfs").write_text(f"{total}\n")
            (device / "sriov_numvfs").write_text(f"{made}\n")
    return tmp_path


def test_only_nics_with_functions_count(networks: Path) -> None:
    assert [pf.name for pf in physical_functions(networks)] == ["eth1", "eth2"]


@pytest.mark.parametrize(
    ("wanted", "needed", "name"), [(None, 7, "eth1"), (None, 8, "eth2"), ("eth2", 1, "eth2")]
)
def test_the_first_that_has_enough(
    networks: Path, wanted: str | None, needed: int, name: str
) -> None:
    """Where functions are made already those are used, and never more: somebody chose so."""
    assert choose(wanted, needed, networks).name == name


@pytest.mark.parametrize(
    ("wanted", "needed", "words"),
    [
        ("eth0", 1, "deployment.pf: got 'eth0'"),
        (None, 9, "needs 9 virtual functions; allowed: as many as a NIC here has (8)"),
        ("eth1", 8, "(7)"),
    ],
)
def test_what_is_refused(networks: Path, wanted: str | None, needed: int, words: str) -> None:
    with pytest.raises(BadInput) as raised:
        choose(wanted, needed, networks)
    assert words in str(raised.value)


def test_a_machine_without_any(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no NIC with SR-IOV functions"):
        choose(None, 2, tmp_path)
