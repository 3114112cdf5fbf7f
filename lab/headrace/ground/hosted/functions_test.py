# SPDX-License-Identifier: Apache-2.0
"""Which NIC makes which virtual functions, and who gets them. The kernel's part is tried in a guest
(tests/vm)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.ground.hosted import functions
from headrace.ground.hosted.sriov import Function, OnNic
from headrace.host.ledger import Ledger
from headrace.host.plumbing import KernelInterface
from headrace.host.sriov import Pf

PFS = [Pf(f"ens{i}", f"0000:4{i}:00.0", total=2, enabled=0, node=0) for i in range(2)]
OWN = [
    Function(owner, "vf", f"02:00:00:00:00:{i:02x}", PFS[i // 2])
    for i, owner in enumerate(("", "vnf1.1", "vnf2.1"))
]


@pytest.mark.parametrize("vf", ["af_packet", "vfio"])
def test_each_nic_makes_its_own(vf: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    did: list[tuple[object, ...]] = []

    class FakeFunctions:
        def __init__(self, pf: Pf, needed: int, ledger: Ledger) -> None:
            self._pf = pf.name
            did.append(("make", pf.name, needed))

        def moving(self, namespace: str, device: str, mac: str) -> list[tuple[str, ...]]:
            return [(self._pf, mac, namespace.partition("-")[2])]

        def addressing(self, mac: str) -> tuple[str, tuple[str, ...]]:
            return f"{self._pf}'s {mac}", (self._pf, mac, "vfio")

        def bind(self, address: str) -> None:
            did.append(("bind", address))

    def nothing(*_: object) -> None: ...

    def ip_each(commands: list[tuple[str, ...]]) -> None:
        did.extend([("ip",), *commands])

    def carrier(namespace: str, look: Callable[[], object]) -> object:
        return {"vf": KernelInterface(0, 0, 0, 0, carrier=True)}

    monkeypatch.setattr(functions, "Functions", FakeFunctions)
    monkeypatch.setattr(functions, "make_namespace", nothing)
    monkeypatch.setattr(functions, "set_up", nothing)
    monkeypatch.setattr(functions, "within", carrier)
    monkeypatch.setattr(functions, "ip_each", ip_each)
    given = functions.NicFunctions(OnNic(vf, tuple(OWN), times=False), Ledger(tmp_path / "ledger"))
    words = [f"{one.pf.name}'s {one.mac}" for one in OWN] if vf == "vfio" else []
    owners = ["tester", "vnf1.1", "vnf2.1"] if vf == "af_packet" else ["vfio"] * 3
    assert did == [
        ("make", "ens0", 2),
        ("make", "ens1", 1),
        ("ip",),
        *((one.pf.name, one.mac, owner) for one, owner in zip(OWN, owners, strict=True)),
        *(("bind", word) for word in words),
    ]
    assert list(given.words.values()) == words


def test_which_links_are_down() -> None:
    """Those without a carrier are down, and so is one that is not there."""
    here = {"vf": KernelInterface(0, 0, 0, 0, carrier=True)}
    own = [replace(OWN[1], name=name) for name in ("vf", "down")]
    assert functions._without_carrier(own, here) == [own[1]]
    here["down"] = KernelInterface(0, 0, 0, 0, carrier=False)
    assert functions._without_carrier(own, here) == [own[1]]
    here["down"] = KernelInterface(0, 0, 0, 0, carrier=True)
    assert functions._without_carrier(own, here) == []
