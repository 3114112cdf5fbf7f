# SPDX-License-Identifier: Apache-2.0
"""Where an Open vSwitch with DPDK has its memory."""

from __future__ import annotations

import pytest

from headrace.host import openvswitch


@pytest.mark.parametrize(
    ("pollers", "memory"), [((0, 1), '"512"'), ((5,), '"0,512"'), ((1, 5), '"512,512"')]
)
def test_hugepages_are_of_the_pollers_nodes(
    monkeypatch: pytest.MonkeyPatch, pollers: tuple[int, ...], memory: str
) -> None:
    monkeypatch.setattr(openvswitch, "node_of", lambda cpu: int(cpu > 3))
    given = openvswitch.dpdk_settings(512, "x", pollers, per_port=True, huge=True)
    assert f"other_config:dpdk-socket-mem={memory}" in given
    [extra] = [one for one in given if "dpdk-extra" in one]
    assert "--in-memory" in extra and "--no-huge" not in extra and "-m 512" not in extra


def test_ordinary_memory_is_asked_for_as_a_whole() -> None:
    given = openvswitch.dpdk_settings(512, "x", (5,), per_port=True)
    assert not any("socket-mem" in one for one in given)
    [extra] = [one for one in given if "dpdk-extra" in one]
    assert "--no-huge" in extra and "-m 512" in extra
