# SPDX-License-Identifier: Apache-2.0
"""How many servers chains need, by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.errors import BadInput
from headrace.profile.placeable_test import placeable
from headrace.profile.provisioned import Costing, Provisioning, with_pareto
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
    provisioning = Provisioning(given.doc, given.experiments, 0.8, 1.0, 4, Costing(1000.0))
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
    shown = document(
        Provision(study="two", busy=0.8, hours=1000, usd_per_kwh=None, needs=rows, cautions=())
    )
    assert "need 1 server round, bought, for 5000 USD" in shown.sentence
    assert shown.sections[0].tables[0].lines[0].cells[4] == 1
    assert "Predicted, not measured" in shown.sections[1].note


@pytest.mark.long
def test_costs_of_buying_and_of_renting_by_hand(tmp_path: Path) -> None:
    """One server of 5000 USD that draws 120 W, or 2 USD an hour: in 1000 hours renting costs less,
    in 3000 it does not, and what a bought one draws is paid, too."""
    given = placeable(tmp_path, "lcores", THREE)
    price = given.server.price_usd
    assert price is not None
    server = given.server.model_copy(update={
        "price_usd": price.model_copy(update={"spread": 0.1}),
        "rent_usd_per_hour": price.model_copy(update={"value": 2.0, "spread": 0.25}),
    })  # fmt: skip
    rows = []
    for hours, kwh in ((1000.0, None), (3000.0, None), (3000.0, 0.5)):
        provisioning = Provisioning(given.doc, given.experiments, 0.8, 1.0, 4, Costing(hours, kwh))
        rows.append(provisioning.needed(server, server, 1.0))
    assert [(row.usd, row.paid) for row in rows] == [
        (2000, "rented"), (5000, "bought"), (pytest.approx(5000 + 3000 * 0.12 * 0.5), "bought"),
    ]  # fmt: skip
    assert [(row.usd_least, row.usd_most) for row in rows[:2]] == [
        (1500, 2500), (pytest.approx(4500), pytest.approx(5500)),
    ]  # fmt: skip
    shown = document(
        Provision(study="two", busy=0.8, hours=3000, usd_per_kwh=0.5, needs=(rows[2],), cautions=())
    )
    assert shown.sections[0].tables[0].lines[0].cells[13] == "5180 (4680 to 5680), bought"
    assert "a kWh that bought servers draw costs 0.5 USD" in shown.cautions[0]
    with pytest.raises(BadInput, match="server round has a `price_usd` and no `power`"):
        Costing(1000.0, 0.5).check(server.model_copy(update={"power": None}))
    only = Costing(1000.0, 0.5)
    only.check(server.model_copy(update={"power": None, "price_usd": None}))


@pytest.mark.long
def test_servers_money_and_delays_have_the_spread_of_costs(tmp_path: Path) -> None:
    """The function's own work is 50 cycles of 100, half as much more or less: a chain takes 75 to
    125. At 28 Mpps each of three is 2.8 lcores busy, and one server's eight are 6.4 at 80 %:
    two servers. With 2.1 for each chain one is not refuted; with 3.5 none is carried by the four
    lcores of a cache, however many servers there are."""
    given = placeable(tmp_path, "lcores", THREE)
    base = given.server.functions["lb"].base
    spread = given.server.functions["lb"].model_copy(
        update={"base": base.model_copy(update={"spread": 0.5})}
    )
    wide = {"gbps": given.server.ports[0].gbps.model_copy(update={"value": 100.0})}
    server = given.server.model_copy(update={
        "functions": {**given.server.functions, "lb": spread},
        "ports": tuple(port.model_copy(update=wide) for port in given.server.ports),
        "interconnect_gbs": None,
    })  # fmt: skip
    provisioning = Provisioning(given.doc, given.experiments, 0.8, 1.0, 4, Costing(1000.0))
    one = provisioning.needed(server, server, 1.0)
    assert (one.servers_least, one.servers, one.servers_most) == (1, 1, 1)
    assert one.latency_least_us and one.latency_us and one.latency_most_us
    assert one.latency_least_us < one.latency_us < one.latency_most_us
    two = provisioning.needed(server, server, 28.0)
    assert (two.servers_least, two.servers, two.servers_most) == (1, 2, None)
    assert (two.usd_least, two.usd, two.usd_most) == (5000, 10_000, None)
    shown = document(
        Provision(
            study="two", busy=0.8, hours=1000, usd_per_kwh=None, needs=(one, two), cautions=()
        )
    )
    first, second = (line.cells for line in shown.sections[0].tables[0].lines)
    assert (first[5], second[5]) == (None, "1 to more")
    assert second[13] == "10000 (5000 to more), bought"
    assert str(first[12]).startswith(f"{one.latency_least_us:.3g} to {one.latency_most_us:.3g}")


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
    row = Provisioning(given.doc, given.experiments, 0.8, 1.0, 4, Costing(1000.0)).needed(
        server, server, 1.0
    )
    assert row.power is not None
    [full, *_] = row.power.loads
    assert full.least == pytest.approx(90 + (195 - 90) / 8)
    assert full.most == pytest.approx(110 + (325 - 110) / 8)
    assert row.power.eer_least == pytest.approx(row.power.weighted_gbps / full.most)
