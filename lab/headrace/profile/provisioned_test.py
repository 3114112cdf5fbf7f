# SPDX-License-Identifier: Apache-2.0
"""How many servers chains need, by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.profile.placeable_test import placeable
from headrace.profile.provisioned import Provisioning, with_pareto
from headrace.report.provision import document
from headrace.spec.provision import Provision

THREE = """
name: three
chains: {a: [lb], b: [lb], c: [lb]}
demands: {a: {rate: 1M}, b: {rate: 1M}, c: {rate: 1M}}
workload: {flows: {count: 12000}}
deployment: {steer: even}
"""


@pytest.mark.long
def test_servers_by_hand(tmp_path: Path) -> None:
    """Each chain takes 10 % of an lcore. At 30 times that it takes the four lcores of one cache, so
    that three chains need two servers of two caches."""
    given = placeable(tmp_path, "lcores", THREE)
    provisioning = Provisioning(given.doc, given.experiments, 0.8, 1.0, 4)
    server = given.server.model_copy(
        update={"ports": tuple(p.model_copy(update={"gbps": p.gbps.model_copy(
            update={"value": 100.0})}) for p in given.server.ports), "interconnect_gbs": None}
    )  # fmt: skip
    one = provisioning.needed(server, server, 1.0)
    assert (one.servers, one.fewest, one.lcores, one.lcores_proven) == (1, True, 1, 1)
    assert (one.usd, one.watts, one.rate_pps) == (5000, 120, 3e6)
    two = provisioning.needed(server, server, 30.0)
    assert two.servers == 2 and two.fewest and two.usd == 10_000
    none = replace(provisioning, most=1).needed(server, server, 30.0)
    assert none.servers is None and none.usd is None
    rows = with_pareto([one, two, two.model_copy(update={"usd": 9000.0})])
    assert [row.pareto for row in rows] == [True, False, True]
    assert one.power is not None and one.power.kind == "predicted"
    # 100 W idle and 20 W for each of eight cores: one is busy, whatever the load.
    assert [(p.load, p.watts) for p in one.power.loads] == [(1.0, 120), (0.3, 120), (0.0, 120)]
    assert one.power.base_watts == 100 and one.power.weighted_watts == pytest.approx(120)
    gbps = 3 * 64 * 8 / 1e3  # 3 Mpps of 64 B
    assert one.power.weighted_gbps == pytest.approx(gbps * (0.1 + 0.8 * 0.3))
    assert one.power.gbps_per_watt == pytest.approx(one.power.weighted_gbps / 120)
    shown = document(Provision(study="two", busy=0.8, needs=rows, cautions=()))
    assert "need 1 server round, for 5000 USD" in shown.sentence
    assert shown.sections[0].tables[0].lines[0].cells[4] == 1
    assert "Predicted, not measured" in shown.sections[1].note


@pytest.mark.long
def test_watts_have_the_spread_of_the_descriptions_figures(tmp_path: Path) -> None:
    """10 % and 25 % either way."""
    given = placeable(tmp_path, "lcores", THREE)
    power = given.server.power
    assert power is not None
    spread = power.model_copy(update={
        "idle_watts": power.idle_watts.model_copy(update={"spread": 0.1}),
        "busy_watts": power.busy_watts.model_copy(update={"spread": 0.25}),
    })  # fmt: skip
    server = given.server.model_copy(update={"power": spread})
    row = Provisioning(given.doc, given.experiments, 0.8, 1.0, 4).needed(server, server, 1.0)
    assert row.power is not None
    [full, *_] = row.power.loads
    assert full.least == pytest.approx(90 + (195 - 90) / 8)
    assert full.most == pytest.approx(110 + (325 - 110) / 8)
    assert row.power.eer_least == pytest.approx(row.power.weighted_gbps / full.most)
