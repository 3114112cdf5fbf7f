# SPDX-License-Identifier: Apache-2.0
"""How many servers several chains of hosted VNFs need, by hand, and beside one chain's."""

from __future__ import annotations

import math

import pytest
import yaml

from headrace.errors import BadInput
from headrace.profile.provisioned import Costing
from headrace.profile.provisioned_chains import ChainsProvisioning
from headrace.profile.provisioned_hosted_test import FULL, LICENCE, PORTS, STUDY, provisioning
from headrace.report.provision import document as provision_document
from headrace.spec import document
from headrace.spec.provision import Provision
from headrace.spec.study import expand


def of_chains(rates: dict[str, float], ratios: tuple[int, ...] = (1,)) -> ChainsProvisioning:
    """The study's chain under several names, each in one VNF or cut as it is best."""
    data = yaml.safe_load(STUDY.read_text())
    chain = data.pop("chain")
    data["chains"] = dict.fromkeys(rates, chain)
    data["demands"] = {name: {"rate": rate} for name, rate in rates.items()}
    data["deployment"]["execution"] = "rtc"
    doc = document.parse(yaml.safe_dump(data), STUDY)
    return ChainsProvisioning(doc, list(expand(doc)), ratios, FULL, 3.0, 16, Costing(26280.0))


@pytest.mark.long
@pytest.mark.parametrize("factor", [1.0, 3.0, 8.0])
def test_two_chains_by_licences_and_ports(factor: float) -> None:
    """A third and two thirds of the packets: the NIC's ports are shared, licences are each VNF's
    own, and source and sink have two lcores."""
    _, server, home = provisioning(ratios=(1,))
    given = of_chains({"edge": 1e6 / 3, "web": 2e6 / 3})
    given.check(server, home)
    [row] = given.needed(server, home, factor)
    servers = math.ceil(factor * 1e6 / PORTS / FULL)
    edge, web = (math.ceil(factor * r * 1e6 / 3 / servers / LICENCE / FULL) for r in (1, 2))
    assert row.hosted is not None
    told = {name: (one.copies, one.vnfs) for name, one in row.hosted.by_chain.items()}
    assert told == {"edge": (edge, 1), "web": (web, 1)}
    assert (row.servers, row.fewest) == (servers, True)
    assert row.lcores == row.lcores_proven == row.cores == servers * (edge + web + 2)
    assert row.usd == servers * 5500 and row.watts is not None
    shown = provision_document(
        Provision(study="both", busy=FULL, hours=26280, usd_per_kwh=None, needs=(row,), cautions=())
    )
    assert f"edge {edge} × 1, web {web} × 1 VNFs at 1:1" in str(shown.sections[0].blocks)


@pytest.mark.long
def test_vnfs_of_two_chains_share_lcores_as_the_ratio_allows() -> None:
    _, server, home = provisioning(ratios=(1,))
    given = of_chains({"edge": 1e5, "web": 1e5}, ratios=(1, 2))
    apart, shared = given.needed(server, home, 1.0)
    assert (apart.lcores, shared.lcores) == (2 + 2, 2 + 1)
    assert apart.watts and shared.watts and shared.watts <= apart.watts


@pytest.mark.long
def test_what_is_too_much_for_all_servers_is_said() -> None:
    _, server, home = provisioning(ratios=(1,))
    [row] = of_chains({"edge": 1e6, "web": 1e6}).needed(server, home, 400.0)
    assert row.servers is None and row.why_not == "at 1:1 no placement was met on up to 16 servers"


def test_a_chain_without_a_demand_is_refused() -> None:
    _, server, home = provisioning(ratios=(1,))
    given = of_chains({"edge": 1e6, "web": 1e6})
    data = {**given.doc.data, "demands": {"edge": {"rate": 1e6}}}
    doc = document.parse(yaml.safe_dump(data), STUDY)
    other = ChainsProvisioning(doc, list(expand(doc)), (1,), FULL, 3.0, 16, Costing(26280.0))
    with pytest.raises(BadInput, match="no `demands`"):
        other.check(server, home)
