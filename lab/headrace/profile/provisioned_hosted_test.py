# SPDX-License-Identifier: Apache-2.0
"""How many servers hosted VNFs need, by hand, on the server of Ben Hamed et al. 2020."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.errors import BadInput
from headrace.host.programs import shipped
from headrace.host.store import server_given
from headrace.profile.provisioned import Costing
from headrace.profile.provisioned_hosted import HostedProvisioning
from headrace.report.provision import document as provision_document
from headrace.spec import document
from headrace.spec.described import DescribedServer
from headrace.spec.provision import Provision, ServersNeeded
from headrace.spec.server_file import with_costs
from headrace.spec.study import expand

STUDY = shipped("studies") / "provision-hosted.yaml"
FRAME = 361.83  # mean of NFVbench's IMIX with its FCS, bytes: 7, 4 and 1 of 64, 594 and 1518
LICENCE = 2.5e9 / (FRAME + 20) / 8  # packets/s: the preamble and the gap count, too
PORTS = 20e9 / (FRAME + 20) / 8
FULL = 0.8


def provisioning(
    old: str = "", new: str = "", ratios: tuple[int, ...] = (1, 2, 4),
    costs: DescribedServer | None = None,
) -> tuple[HostedProvisioning, DescribedServer, DescribedServer]:  # fmt: skip
    text = STUDY.read_text()
    assert old in text
    doc = document.parse(text.replace(old, new, 1) if old else text, STUDY)
    server, home = with_costs(server_given(doc, "xeon-gold-5118"))
    home = costs or home
    given = HostedProvisioning(doc, list(expand(doc)), ratios, FULL, 16, Costing(26280.0))
    given.check(server, home)
    return given, server, home


def by_way(rows: list[ServersNeeded]) -> dict[tuple[str, int], ServersNeeded]:
    return {(r.hosted.execution, r.hosted.oversubscription): r for r in rows if r.hosted}


def test_what_licences_and_ports_allow_by_hand() -> None:
    """A PVP's VNF sends what its licence allows; all of them what the two ports do, and a PVVP
    goes through the NIC's switch twice as often."""
    assert pytest.approx((7 * 64 + 4 * 594 + 1518) / 12, rel=1e-4) == FRAME
    given, server, home = provisioning(ratios=(1,))
    for factor, pvp, pvvp in (
        (1, (1, 1e6 / LICENCE), (1, 1e6 / LICENCE)),
        (3, (1, 3e6 / LICENCE), (3e6 / (PORTS / 2), 1.5e6 / LICENCE)),
        (8, (8e6 / PORTS, 4e6 / LICENCE), (8e6 / (PORTS / 2), 2e6 / LICENCE)),
    ):
        rows = by_way(given.needed(server, home, factor))
        for name, (servers, chains) in {"pvp": pvp, "pvvp": pvvp}.items():
            row = rows[name, 1]
            assert row.hosted is not None and row.servers is not None
            assert row.servers - 1 < servers / FULL * (servers != 1) + (servers == 1) <= row.servers
            assert row.hosted.chains - 1 < chains / FULL <= row.hosted.chains, (name, factor)
            vnfs = row.hosted.chains * (1 if name == "pvp" else 2)
            assert row.lcores == row.cores == row.servers * (vnfs + 2)
            assert row.usd == row.servers * 5500


@pytest.mark.long
def test_oversubscribed_cores_are_fewer_and_packets_wait() -> None:
    """At 2:1 each VNF has a thread of a core; at 4:1 two take turns on one, by slices."""
    given, server, home = provisioning()
    rows = by_way(given.needed(server, home, 3.0))
    apart, threads, turns = (rows["pvp", ratio] for ratio in (1, 2, 4))
    assert apart.hosted and threads.hosted and turns.hosted
    assert apart.hosted.chains == threads.hosted.chains == 5
    assert (apart.cores, threads.cores) == (2 + 5, 2 + 3)
    one_vnf = by_way(given.needed(server, home, 0.5))
    assert ("pvp", 1) in one_vnf and ("pvp", 2) not in one_vnf  # it is on a core of its own in both
    assert turns.hosted.chains > 5  # a VNF that waits for its turn carries less without loss
    assert (turns.latency_us or 0) > 10 * (apart.latency_us or 0) > 0
    fewer = replace(given, most=1, ratios=(1,)).needed(server, home, 30.0)
    assert all(row.servers is None and "one server carries" in row.why_not for row in fewer)
    shown = provision_document(
        Provision(
            study="pvp",
            busy=FULL,
            hours=26280,
            usd_per_kwh=None,
            needs=tuple(rows.values()),
            cautions=(),
        )
    )
    assert "5 × 1 VNF (pvp) at 1:1" in str(shown.sections[0].blocks)


@pytest.mark.long
def test_each_row_carries_its_rate_and_a_chain_less_does_not() -> None:
    given, server, home = provisioning(ratios=(4,))
    for row in given.needed(server, home, 2.0):
        assert row.hosted is not None and row.servers is not None
        [option] = [
            one
            for one in given._filled
            if one[1:] == (row.hosted.execution, 4, row.hosted.chains, 0.0)
        ]
        filled = given._filled[option]
        each = row.rate_pps / row.servers
        assert filled.layout.received_pps(each) >= each * (1 - 1e-5)
        less = given._filled[(*option[:3], row.hosted.chains - 1, 0.0)]
        assert less.pps * FULL < each


@pytest.mark.long
def test_a_delay_that_is_asked_for_takes_more_vnfs_or_is_not_met() -> None:
    """VNFs that take turns on a thread wait less the more of them there are for the same packets:
    each of them sleeps sooner."""
    rows = []
    for demand in ("{rate: 1.5M}", "{rate: 1.5M, latency: 200 us}"):
        given, server, home = provisioning("{rate: 1M}", demand, (4,))
        small = server.model_copy(update={"cores_per_socket": 4})
        rows += replace(given, experiments=given.experiments[:1]).needed(small, home, 1.0)
    any_delay, row = rows
    assert row.hosted is not None and any_delay.hosted is not None
    assert row.hosted.chains > any_delay.hosted.chains
    assert (row.latency_us or 999) <= 200 < (any_delay.latency_us or 0)
    given, server, home = provisioning("{rate: 1M}", "{rate: 1M, latency: 1 us}", (1,))
    for row in given.needed(server, home, 1.0):  # one VNF alone takes 1.9 us
        assert row.servers is None
        assert row.why_not.endswith("at 1:1: no number of chains has the delay that is asked")


@pytest.mark.long
def test_machines_cost_what_the_description_says_and_it_is_named() -> None:
    """With links like processes' they are as many. With ends that take as long as 2 us of an lcore
    a VNF carries less than its licence: by hand, what one lcore does when it is 80 % busy."""
    as_process, server, home = provisioning(ratios=(1,))
    links = home.hosting
    assert links is not None and links.vf_take is not None
    like = home.model_copy(update={"machines": links})
    slow = links.vf_take.model_copy(update={"value": 2e-6 * home.clock_mhz.value * 1e6})
    unlike = home.model_copy(update={"machines": links.model_copy(update={"vf_take": slow})})
    processes = by_way(as_process.needed(server, home, 3.0))
    for machines in (like, unlike):
        given, _, _ = provisioning("kind: process", "kind: vm", (1,), machines)
        rows = by_way(given.needed(server, machines, 3.0))
        assert "`machines` of reference: measured: " in given.links([machines])[0]
        for name, row in rows.items():
            assert row.hosted is not None and row.hosted.kind == "vm"
            other = processes[name]
            assert other.hosted is not None and other.servers is not None
            if machines is like:
                assert (row.servers, row.hosted.chains) == (other.servers, other.hosted.chains)
        if machines is unlike:
            pvp = rows["pvp", 1]
            assert pvp.hosted is not None and pvp.servers is not None
            each = 3e6 / pvp.servers / pvp.hosted.chains
            assert each < FULL / 2e-6 < LICENCE * FULL
            assert pvp.hosted.limit.startswith("lcore")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("memory_mb: 192", "memory_mb: 192, chains: 4", "deployment.hosting.chains: is what"),
        ("kind: process", "kind: vm", "server reference has no `machines`: what links to virtual"),
        ("[0, 1]}", "[0, 1], chain: [2]}", "deployment.lcores.chain: is what"),
        ("demands: {provision-hosted: {rate: 1M}}\n", "", "no `demands`"),
    ],
)
def test_what_it_computes_may_not_be_given(old: str, new: str, message: str) -> None:
    with pytest.raises(BadInput, match=message.replace("(", r"\(")):
        provisioning(old, new)
