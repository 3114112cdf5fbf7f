# SPDX-License-Identifier: Apache-2.0
"""How engines reach their virtual functions. That packets pass is tried in a guest (tests/vm)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.ground.hosted import sriov
from headrace.ground.hosted.sriov import Function, OnNic, no_functions, ports
from headrace.host.sriov import Pf

PF = Pf("ens1", "0000:41:00.0", total=7, enabled=0, node=0)
OWN = Function("vnf1.1", "vf", "02:00:00:00:01:01", PF)


def devargs(vf: str) -> str:
    nic = OnNic(vf, (OWN,), times=True)
    return str(ports([OWN], nic)["vf"].params["devargs"])


def test_af_xdp_brings_its_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """libxdp(3): LIBXDP_OBJECT_PATH goes before the system's folders."""
    monkeypatch.setenv("LIBXDP_OBJECT_PATH", str(tmp_path))
    assert str(tmp_path) not in devargs("af_xdp")
    program = tmp_path / "xsk_def_xdp_prog.o"
    program.touch()
    assert devargs("af_xdp") == f"net_af_xdp0,iface=vf,xdp_prog={program}"


def test_other_ways_have_none() -> None:
    assert devargs("af_packet").startswith("net_af_packet0,iface=vf,")
    assert devargs("vfio") == OWN.pci


@pytest.mark.parametrize(
    ("deployment", "wanted"),
    [
        ({"hosting": "inline"}, 2),
        ({"hosting": {"kind": "process", "chains": 3}}, 4),
        ({"hosting": {"kind": "process", "chains": [2, 9]}}, 10),
    ],
)
def test_functions_that_a_group_needs(
    deployment: dict[str, Any], wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One for the tester and one for each VNF, whatever way the hosting is written."""
    for total in (wanted - 1, wanted):
        nic = replace(PF, total=total)
        monkeypatch.setattr(sriov, "physical_functions", lambda _, nic=nic: [nic])
        refusal = f"{wanted} virtual functions, a NIC here has {total}"
        assert no_functions({"deployment": deployment}) == (None if total == wanted else refusal)
