# SPDX-License-Identifier: Apache-2.0
"""What chains cost where, by hand and against the simulated ground; a placement as a spec."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from headrace.engine.describe import describe
from headrace.engine.place import Topology, place
from headrace.errors import BadInput
from headrace.ground.simulated.costs import priced
from headrace.host.programs import find_engine
from headrace.layout.placing import segment_work, share
from headrace.layout.provable import Placing
from headrace.profile.chain_parts import in_parts
from headrace.profile.placeable import Placeable, PlacementWish
from headrace.profile.settled import SettledPlacement
from headrace.report.document_model import Table
from headrace.report.placed import document as placed_document
from headrace.report.placed import sentence
from headrace.spec import document
from headrace.spec.described import DescribedServer
from headrace.spec.group import Machine
from headrace.spec.placement import WHOLE, PlacementAim
from headrace.spec.points import points
from headrace.spec.server_file import read_server
from headrace.spec.study import expand

SERVER = """
name: round
sources: {x: {kind: assumed, text: round numbers}}
clock_mhz: [1000, x]
sockets: 2
cores_per_socket: 4
levels:
  - {name: L1, kib: [32, x], cycles: [4, x], gather_cycles: [1, x]}
  - {name: L3, kib: [3200, x], shared_by: 4, cycles: [40, x], gather_cycles: [4, x]}
  - {name: memory, cycles: [250, x], gather_cycles: [20, x]}
transfer_cycles: [60, x]
remote_cycles: [120, x]
interconnect_gbs: [10, x]
ports: [{gbps: [10, x]}, {gbps: [10, x], socket: 1}]
tester: outside
price_usd: [5000, x]
power: {idle_watts: [100, x], busy_watts: [260, x]}
functions:
  acl: &nf {base: [50, x], rx: [20, x], tx: [10, x], hand_over: [15, x], loop: [5, x], poll: [0, x]}
  lb: *nf
traffic: {source: [30, x], sink: [20, x], hand_over: [10, x], idle: [10, x]}
"""
STUDY = """
name: two
chains: {one: [acl, lb], other: [lb]}
demands: {one: {rate: 2M}, other: {rate: 1M, latency: 0.1 ms}}
workload: {flows: {count: 1000}}
deployment: {steer: even}
"""


def placeable(tmp_path: Path, aim: PlacementAim = "lcores", text: str = STUDY) -> Placeable:
    file = tmp_path / "round.yaml"
    file.write_text(SERVER)
    server: DescribedServer = read_server(file)[1]
    doc = document.parse(text, tmp_path / "two.yaml")
    return Placeable(doc, list(expand(doc)), server, server, PlacementWish(aim))


def test_loads_by_hand(tmp_path: Path) -> None:
    """At 2 Mpps on a core of 1 GHz 150 cycles are 30 %. From another socket a packet takes 15 more
    than the 15 of another core."""
    problem = placeable(tmp_path).problem()
    one, other = problem.chains
    whole = [share(one, segment_work(one, 0, 2, 0, origin), 1) for origin in (0, 1, 2)]
    assert whole == [3000, 3000, 3300]
    assert share(one, segment_work(one, 0, 2, 0, 0), 2) == 1500
    assert share(other, segment_work(other, 0, 1, 0, 0), 1) == 1000
    # 84 bytes of a frame of 64 on the wire, at 2 Mpps: 1344 Mbit/s; 128 MB/s between sockets.
    assert [door.uses for door in one.doors] == [((0, 1344),), ((1, 1344),)]
    assert one.crossing == 128 and problem.limits[2].capacity == 10_000


def test_the_simulated_ground_has_the_same_cycles(tmp_path: Path) -> None:
    given = placeable(tmp_path)
    chain = given.problem().chains[0]
    for execution in ("rtc", "pipeline"):
        text = STUDY.replace("{steer: even}", f"{{execution: [{execution}], steer: even}}")
        doc = document.parse(text, tmp_path / "two.yaml")
        one = next(e for e in expand(doc) if e.chain == "one")
        topology = Topology(lambda cpu: [cpu], lambda cpu: 0)
        placement = place(one, doc, [0, 1, 2, 3], topology)
        simulated = priced(
            given.server, given.server, one, placement, {"acl": 1, "lb": 1}
        ).busiest()
        cuts = [(0, 2)] if execution == "rtc" else [(0, 1), (1, 2)]
        replicas = len(placement.segments[0].cpus)
        for (first, end), cpu in zip(cuts, placement.segments[0].cpus, strict=False):
            load = share(chain, segment_work(chain, first, end, 0, 0), replicas)
            assert load == pytest.approx(simulated[cpu] * 2e6 / 1e9 * WHOLE, abs=1)


@pytest.mark.parametrize(
    ("aim", "value", "words"),
    [
        ("lcores", 1, "On 1 of 8 lcores what is asked is carried, none of them over 80 % busy"),
        ("money", 5000, "5000 USD of servers carry what is asked"),
        ("watts", 120_000, "120 W (predicted, not measured) carry what is asked"),
    ],
)
def test_what_each_aim_counts(tmp_path: Path, aim: PlacementAim, value: int, words: str) -> None:
    given = placeable(tmp_path, aim)
    answer = Placing(given.problem(), seconds=30).answer()
    assert (answer.value, answer.certificate.bound, answer.word) == (value, value, "optimal")
    plan = SettledPlacement(given, answer).plan(1.0, "accepted")
    assert words in sentence(plan)
    assert placed_document(plan).sections[0].title == "Where everything is"


def test_rates_are_at_one_factor_of_all_chains(tmp_path: Path) -> None:
    """What each carries at that, and not what it could by itself: the column says so."""
    given = placeable(tmp_path, "rate")
    plan = SettledPlacement(given, Placing(given.problem(), seconds=30).answer()).plan(1.0, "ok")
    factor = 10_000 / plan.answer.value
    assert all(c.carries_pps == pytest.approx(factor * c.rate_pps, rel=0.01) for c in plan.chains)
    shown = placed_document(plan)
    [table] = [one for s in shown.sections if s.title == "Chains" for one in s.blocks]
    assert isinstance(table, Table)
    names = [one if isinstance(one, str) else one.name for one in table.columns]
    times = sentence(plan).split("can carry ")[1].split(" what")[0]
    assert times in names and "can carry" not in names


def test_why_a_chain_is_where_it_is(tmp_path: Path) -> None:
    """Alone on the other socket it needs an lcore more; in two segments two more."""
    given = placeable(tmp_path)
    answer = Placing(given.problem(), seconds=30).answer()
    plan = SettledPlacement(given, answer).plan(1.0, "accepted")
    [segment] = plan.chains[0].segments
    assert segment.functions == ("acl", "lb") and segment.load == pytest.approx(0.3)
    other = 1 - int(segment.place.removeprefix("socket "))
    elsewhere = {one.where: one.value for one in plan.chains[0].next_best}
    assert elsewhere[f"all on socket {other}"] == 2 and elsewhere["a pipeline"] == 3
    assert sum(plan.chains[0].buckets) == 128 and plan.chains[0].queues == segment.cpus


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="says nothing of chain other"):
        text = STUDY.replace(", other: {rate: 1M, latency: 0.1 ms}", "")
        placeable(tmp_path, "lcores", text).problem()
    with pytest.raises(BadInput, match="third is no chain; allowed: one, other"):
        placeable(tmp_path, "lcores", STUDY.replace("other: {rate", "third: {rate"))
    server = SERVER.replace("remote_cycles: [120, x]\n", "")
    (tmp_path / "near.yaml").write_text(server)
    given = placeable(tmp_path)
    near = read_server(tmp_path / "near.yaml")[1]
    with pytest.raises(BadInput, match="no `remote_cycles`"):
        Placeable(given.doc, given.experiments, near, near, given.wish).problem()


def test_a_chain_in_two_parts_is_placed_as_two_of_half_the_flows(tmp_path: Path) -> None:
    """One that is too much for the lcores of a cache is on both sockets: the problem is the one of
    two chains with half of the rate and of the flows."""
    halves = (
        "name: two\nchains: {one-1: [acl, lb], one-2: [acl, lb]}\n"
        "demands: {one-1: {rate: 20M}, one-2: {rate: 20M}}\n"
        "workload: {flows: {count: 500}}\ndeployment: {steer: even}\n"
    )
    whole = (
        "name: two\nchains: {one: [acl, lb]}\ndemands: {one: {rate: 40M}}\n"
        "workload: {flows: {count: 1000}}\ndeployment: {steer: even}\n"
    )
    given = placeable(tmp_path, "rate", whole.replace("40M", "40M, parts: 2"))
    parts = replace(given, experiments=in_parts(given.experiments, given.doc))
    assert parts.problem() == placeable(tmp_path, "rate", halves).problem()
    apart, together = (
        Placing(one.problem(), 3.0).answer() for one in (parts, placeable(tmp_path, "rate", whole))
    )
    assert apart.word == together.word == "optimal"
    assert {s.area for way in apart.placement.ways for s in way.segments} == {0, 1}
    assert together.value == pytest.approx(2 * apart.value, rel=0.02)
    settled = SettledPlacement(parts, apart)
    plan = settled.plan(1.0, "")
    assert [chain.chain for chain in plan.chains] == ["one-1", "one-2"]
    assert [sum(chain.buckets) for chain in plan.chains] == [64, 64]
    spec = settled.spec(tmp_path / "round.yaml", describe(find_engine()))
    doc = document.parse(yaml.safe_dump(spec), tmp_path / "placed.yaml")
    for point in points(doc, Machine(8, 2)):
        [one] = expand(point.doc)
        assert one.flows == 500 and one.study.measure.loads == (20_000_000,)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("1000}", "1000, order: zipf}", "one.parts: of flows some of which have more packets"),
        ("{count: 1000}", "{count: 1, vary: []}", "one.parts: of 1 flows; allowed: no more parts"),
        ("other", "one-1", "one.parts: one-1 is another chain's name"),
        ("steer: even", "hosting: process", "one.parts: of VNFs that are hosted apart"),
    ],
)
def test_what_cannot_be_divided_is_refused(tmp_path: Path, old: str, new: str, words: str) -> None:
    text = STUDY.replace("{rate: 2M}", "{rate: 2M, parts: 2}").replace(old, new)
    given = placeable(tmp_path, text=text)
    with pytest.raises(BadInput, match=words):
        in_parts(given.experiments, given.doc)
