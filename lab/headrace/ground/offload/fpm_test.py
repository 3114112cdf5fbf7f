# SPDX-License-Identifier: Apache-2.0
"""Each VNF's packets go to its own routes, all of them."""

from __future__ import annotations

from ipaddress import IPv4Address

from headrace.ground.offload.fpm import destinations, prefixes


def test_the_flows_of_a_vnf_have_an_address_in_each_of_its_routes() -> None:
    to = destinations(vnfs=3, routes=4, flows=18)
    for vnf in range(3):
        own = [IPv4Address(one) for one in to[vnf::3]]
        nets = prefixes(4, vnf)
        assert own == [nets[i % 4][1] for i in range(6)]  # around again after the fourth
        assert str(own[0]) == f"10.16.0.{64 * vnf + 1}"
