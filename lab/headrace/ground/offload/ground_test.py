# SPDX-License-Identifier: Apache-2.0
"""On which lcores the modes of the comparison are, and what each is."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.engine.describe import describe
from headrace.errors import BadInput
from headrace.ground.engines.engine_point import ForeignPoint
from headrace.ground.hosted.ground import HostedPoint
from headrace.ground.inline import EnginePoint
from headrace.ground.offload import ground
from headrace.host.programs import find_engine
from headrace.spec import document

SPEC = """
name: t
deployment:
  hosting: {{kind: offload, vnfs: 3, routes: 16, forwarders: {forwarders}, modes: [{modes}]}}
workload: {{flows: 256}}
measure: {{max: true}}
"""
INLINE, HOSTED, SWITCH = ("bare-metal", "offload"), "conventional-adaptive", "ovs-flows"


def checked(
    monkeypatch: pytest.MonkeyPatch, forwarders: int, *modes: str
) -> dict[str, EnginePoint]:
    """As on a machine with three lcores and Open vSwitch."""
    monkeypatch.setattr(ground, "usable_cpus", lambda: [0, 1, 2])
    monkeypatch.setattr(ground, "dpdk_lacking", lambda: None)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    text = SPEC.format(forwarders=forwarders, modes=", ".join(modes))
    doc = document.parse(text, Path("t.yaml"))
    points = ground.OffloadGround(describe(find_engine())).check(doc).points
    assert all(isinstance(one, EnginePoint) for one in points)
    return {one.execution: one for one in points if isinstance(one, EnginePoint)}


@pytest.mark.parametrize(("forwarders", "lcores"), [(1, (2,)), (2, (1, 2))])
def test_flows_are_spread_over_the_lcores_that_forward(
    monkeypatch: pytest.MonkeyPatch, forwarders: int, lcores: tuple[int, ...]
) -> None:
    """A replica of a function, or a poller of the switch, on each; VNFs in turn."""
    modes = checked(monkeypatch, forwarders, *INLINE, HOSTED, SWITCH)
    assert list(modes) == [*INLINE, HOSTED, SWITCH]
    for name in INLINE:
        [segment] = modes[name].placement.segments
        assert segment.cpus == lcores
    hosted, switch = modes[HOSTED], modes[SWITCH]
    assert isinstance(hosted, HostedPoint) and isinstance(switch, ForeignPoint)
    assert {vnf.lcores for vnf in hosted.hosted.vnfs} == {(one,) for one in lcores}
    assert switch.placement.others == lcores
    assert {one.placement.generator for one in modes.values()} == {0}


def test_more_lcores_than_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match=r"t\.yaml:4: .*forwarders: 3 lcores.*at most 2$"):
        checked(monkeypatch, 3, *INLINE)


def test_the_switch_has_a_flow_for_each_route(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of all VNFs, and the packets are the plain router's."""
    modes = checked(monkeypatch, 1, "bare-metal", SWITCH)
    switch = modes[SWITCH]
    assert isinstance(switch, ForeignPoint)
    tables = switch.adapter.tables  # type: ignore[attr-defined]
    routes = [flow for flow in tables.flows if "nw_dst=10.16." in flow]
    assert len(routes) == 3 * 16
    sources = [modes[name].plan.sources[0].params for name in ("bare-metal", SWITCH)]
    for params in sources:
        params.pop("dst_ips_file")
    assert sources[0] == sources[1]
