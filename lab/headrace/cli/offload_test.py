# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from headrace.cli.offload import _line
from headrace.record.offload_report import OffloadedVnf

VNF = OffloadedVnf(
    name="r1", up=True, held=False, ipv4_routes=7, ipv6_routes=1, next_hops=2, neighbours=3,
    sessions=1, updates=9, ignored=0, no_room=0, swept=0, last_update_ns=1,
)  # fmt: skip


def test_a_vnf_that_was_refused_routes_is_named() -> None:
    full = VNF.model_copy(update={"no_room": 12})
    assert _line(full).startswith("r1 ") and _line(full).endswith("no room for 12")
    assert "room" not in _line(VNF)
