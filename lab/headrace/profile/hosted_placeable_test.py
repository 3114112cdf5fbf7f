# SPDX-License-Identifier: Apache-2.0
"""VNFs in processes of their own placed on a described server, by hand and against the simulated
ground."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import yaml

from headrace.engine.describe import describe
from headrace.errors import BadInput, HeadraceError
from headrace.ground.hosted import sriov
from headrace.ground.hosted.arrangement import arrange, placement_of
from headrace.ground.simulated.costs import counted
from headrace.ground.simulated.ground import cpu_of
from headrace.ground.simulated.priced_hosted import HostedLayout, priced_hosted
from headrace.ground.simulated.priced_hosted_test import (
    IN,
    MACHINES,
    ON,
    OUT,
    SERVER,
    SOURCE_AND_SINK,
    VNF,
)
from headrace.host.programs import find_engine
from headrace.layout import check_placement
from headrace.layout.enumerated import enumerate_all
from headrace.layout.provable import Placing
from headrace.layout.provable_test import instance
from headrace.profile.hosted_placeable import HostedPlaceable
from headrace.profile.placeable import PlacementWish
from headrace.profile.settled import SettledPlacement
from headrace.spec import document
from headrace.spec.described import DescribedServer
from headrace.spec.document import Document
from headrace.spec.group import Machine
from headrace.spec.placement import WHOLE, PlacementAnswer, PlacementProblem
from headrace.spec.points import points
from headrace.spec.server_file import read_server
from headrace.spec.study import Experiment, expand

LLC = "  - {name: L3, kib: [1024, x], shared_by: 4, cycles: [50, x], gather_cycles: [5, x]}\n"
TWO_SOCKETS = (
    SERVER.replace("cores_per_socket: 8", "cores_per_socket: 4\nsockets: 2").replace(
        "  - {name: memory", f"{LLC}  - {{name: memory"
    )
    + "transfer_cycles: [50, x]\nremote_cycles: [100, x]\n"
)
POLL = 64 / 32  # of one link or ring, in full bursts


def placeable(
    folder: Path, hosting: str, functions: int = 3, more: str = "", text: str = TWO_SOCKETS,
    kind: str = "process", chains: int = 1,
) -> HostedPlaceable:  # fmt: skip
    """`chains`: of them, all alike, each of `functions`."""
    file = folder / "round.yaml"
    file.write_text(text)
    server = read_server(file)[1]
    chain = ", ".join(f"{{name: f{i}, nf: l2fwd}}" for i in range(functions))
    doc = document.parse(
        f"name: hosted\n{_several(chain, chains)}"
        f"deployment:\n  hosting: {{kind: {kind}, {hosting}}}\n{more}"
        "workload: {frame: 64, flows: {count: 64}}\n",
        folder / "hosted.yaml",
    )
    return HostedPlaceable(doc, list(expand(doc)), server, server, PlacementWish("rate"))


def _several(chain: str, chains: int) -> str:
    if chains == 1:
        return f"chain: [{chain}]\n"
    return "chains: {" + ", ".join(f"c{i}: [{chain}]" for i in range(chains)) + "}\n"


def settled(given: HostedPlaceable) -> SettledPlacement:
    answer = Placing(given.problem(), 3.0).answer()
    check_placement.check(json.loads(answer.model_dump_json()))
    return SettledPlacement(given, answer)


def simulated(doc: Document, server: DescribedServer) -> HostedLayout:
    """What the simulated ground has a spec cost."""
    [one] = expand(doc)

    bare = arrange(one, doc, server.cpus, partial(cpu_of, server))
    vnfs = [vnf for several in bare.chains for vnf in several]
    placement = placement_of(vnfs, bare.traffic, (), one.study.deployment.network)
    return priced_hosted(server, server, one, bare, placement, counted(server, one, doc))


def carried(answer: PlacementAnswer) -> float:
    return answer.problem.chains[0].rate_pps * WHOLE / answer.value


def test_what_one_vnf_and_the_host_cost_by_hand(tmp_path: Path) -> None:
    """One function in a VNF: the host's lcore is the narrower one by far."""
    given = placeable(tmp_path, "chains: 1", functions=1)
    chain = given.problem().chains[0]
    [function] = chain.functions
    cycles = (function.enter[0] + function.work[0] + function.leave) / 1e4 / 1e4 * 1e9 / 1e7
    assert cycles == pytest.approx(VNF, rel=1e-6)
    host = SOURCE_AND_SINK + IN + POLL + OUT + POLL
    answer = settled(given).answer
    assert answer.word == "optimal"
    assert carried(answer) == pytest.approx(1e9 / host, rel=1e-3)
    assert ON > 0


@pytest.mark.parametrize(
    ("hosting", "more"),
    [("chains: 1", ""), ("chains: 2", ""), ("chains: 2, wait: poll", "  network: vepa\n"),
     ("chains: 1", "  lcores: {traffic: [0, 1, 2]}\n")],
)  # fmt: skip
def test_the_choice_carries_what_the_simulated_ground_says_of_its_spec(
    tmp_path: Path, hosting: str, more: str
) -> None:
    """No other cut and no other socket is better there, all of them being tried."""
    given = placeable(tmp_path, hosting, more=more)
    chosen = settled(given)
    description = describe(find_engine())
    spec = chosen.spec(tmp_path / "round.yaml", description)
    doc = document.parse(yaml.safe_dump(spec), tmp_path / "placed.yaml")
    there, _ = simulated(doc, given.server).capacity()
    assert carried(chosen.answer) == pytest.approx(there, rel=2e-3)
    best, copies = 0.0, given.experiments[0].hosting.chains
    hosts = list(given.host_cpus)
    names = [node.name for node in given.experiments[0].nodes]
    for bars in range(1 << (len(names) - 1)):
        ends = [i + 1 for i in range(len(names) - 1) if bars >> i & 1] + [len(names)]
        cut = [names[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]
        for sockets in itertools.product((0, 1), repeat=len(cut)):
            free = {s: [c for c in range(4 * s, 4 * s + 4) if c not in hosts] for s in (0, 1)}
            if any(copies * sockets.count(s) > len(free[s]) for s in (0, 1)):
                continue
            lcores = [free[s].pop() for _ in range(copies) for s in sockets]
            deployment = {
                **spec["deployment"],
                "execution": {"segments": cut},
                "hosting": {**spec["deployment"]["hosting"], "lcores": lcores},
                "lcores": {"traffic": hosts, "chain": sorted(lcores)},
            }
            other = document.parse(
                yaml.safe_dump({**spec, "deployment": deployment}), tmp_path / "other.yaml"
            )
            best = max(best, simulated(other, given.server).capacity()[0])
    assert there == pytest.approx(best, rel=2e-3)


ON_NIC = TWO_SOCKETS.replace(
    "rouse_us: [1, x]}", "rouse_us: [1, x], vf_take: [45, x], vf_give: [30, x]}"
) + "ports: [{gbps: [1, x]}, {gbps: [1, x]}]\n"  # fmt: skip


@pytest.mark.parametrize(("licence", "pps"), [("", 2e9 / 672), (", rate_cap_gbps: 0.5", 1e9 / 672)])
def test_vnfs_on_a_nic_are_limited_by_its_switch_and_their_licences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, licence: str, pps: float
) -> None:
    """By hand: frames of 64 B are 672 bits, and pass the switch of two ports once where the chain
    is one VNF; two copies have a licence each. The functions are those that a run gives them."""
    more = "  network: sriov\n  lcores: {traffic: [0, 1]}\n"
    given = placeable(tmp_path, f"chains: 2{licence}", more=more, text=ON_NIC)
    chain = given.problem().chains[0]
    uses = dict(chain.doors[0].uses)
    assert chain.switched == pytest.approx([1e7 * 672 / 2e9 * WHOLE] * 2, abs=1)
    assert (chain.switch, uses[2]) == (2, 0)  # once for each VNF, and no more
    chosen = settled(given)
    assert carried(chosen.answer) == pytest.approx(pps, rel=2e-3)
    spec = chosen.spec(tmp_path / "round.yaml", describe(find_engine()))
    doc = document.parse(yaml.safe_dump(spec), tmp_path / "placed.yaml")
    assert carried(chosen.answer) == pytest.approx(
        simulated(doc, given.server).capacity()[0], rel=2e-3
    )
    [one] = expand(doc)
    monkeypatch.setattr(sriov, "choose_nics", lambda _wanted, needed, **_o: list(range(needed)))
    bare = arrange(one, doc, given.server.cpus, partial(cpu_of, given.server))
    functions = sriov.on_nic(one, bare.chains).functions
    planned = chosen.plan(1.0, "").chains[0].segments
    for copy, vnfs in enumerate(bare.chains):
        for vnf, part in zip(vnfs, planned, strict=True):
            [number] = [i for i, function in enumerate(functions) if function.owner == vnf.name]
            assert (number, vnf.lcores) == (part.vfs[copy], (part.cpus[copy],))


def test_a_machines_vnfs_are_placed_as_processes_are(tmp_path: Path) -> None:
    process = settled(placeable(tmp_path, "chains: 2"))
    machine = settled(placeable(tmp_path, "chains: 2", kind="vm"))
    assert machine.answer.value == process.answer.value
    spec = machine.spec(tmp_path / "round.yaml", describe(find_engine()))
    hosting = spec["deployment"]["hosting"]
    assert hosting["kind"] == "vm" and len(hosting["lcores"]) == 2 * len(
        spec["deployment"]["execution"]["segments"]
    )
    assert "ground" not in spec
    assert isinstance(machine.placeable, HostedPlaceable)
    [told] = machine.placeable.cautions(machine.answer.placement, 1.0)
    assert told.endswith("links to machines were not measured, and cost here what processes' do.")


def test_a_machines_vnf_costs_what_the_description_says(tmp_path: Path) -> None:
    given = placeable(tmp_path, "chains: 1", functions=1, text=TWO_SOCKETS + MACHINES, kind="vm")
    [function] = given.problem().chains[0].functions
    cycles = (function.enter[0] + function.work[0] + function.leave) / 1e4 / 1e4 * 1e9 / 1e7
    assert cycles == pytest.approx(VNF + 30 + 5, rel=1e-6)
    host = SOURCE_AND_SINK + IN + POLL + OUT + POLL + 7 + 11
    answer = settled(given).answer
    assert carried(answer) == pytest.approx(1e9 / host, rel=1e-3)
    cautions = given.cautions(answer.placement, 1.0)
    assert "(`machines` of round: assumed: round numbers)" in cautions[1]


@pytest.mark.parametrize(
    ("hosting", "more", "words"),
    [
        ("oversubscription: '2:1', wait: poll", "", "got '2:1'; cannot place VNFs that share"),
        ("chains: 1, shares: rate-cost", "", "hosting.shares: cannot place weights of VNFs"),
        ("chains: 2, active: 1", "", "hosting.active: cannot place chains that stand by"),
        (
            "chains: 1",
            "  network: bridge\n",
            "network: cannot place VNFs behind it; allowed: veb, vepa, sriov",
        ),
        ("chains: 1", "  lcores: {traffic: [0, 1, 2, 3]}\n", "allowed: 1 to 3"),
        ("chains: 1, switch_gbps: 1", "", "hosting.switch_gbps: cannot place behind a limit"),
    ],
)
def test_what_is_not_placed_is_refused(tmp_path: Path, hosting: str, more: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        placeable(tmp_path, hosting, more=more).problem()


@pytest.mark.parametrize(
    ("hosting", "more", "text"),
    [("", "", TWO_SOCKETS), ("wait: poll, ", "  network: vepa\n", TWO_SOCKETS),
     ("rate_cap_gbps: 0.5, ", "  network: sriov\n  lcores: {traffic: [0, 1]}\n", ON_NIC)],
)  # fmt: skip
def test_two_chains_alike_carry_what_two_copies_of_one_do(
    tmp_path: Path, hosting: str, more: str, text: str
) -> None:
    """The simulated ground knows copies: of a chain in one VNF the two chains' host has as many
    links, and each has half of the rate. Each licence is of its own chain."""
    two = settled(placeable(tmp_path, f"{hosting}chains: 1", 2, more, text, chains=2))
    one = settled(placeable(tmp_path, f"{hosting}chains: 2", 2, more, text))
    assert two.answer.word == "optimal"
    rates = [chain.carries_pps for chain in two.plan(1.0, "").chains]
    assert rates[0] == rates[1]
    assert sum(rates) == pytest.approx(carried(one.answer), rel=2e-3)
    spec = one.spec(tmp_path / "round.yaml", describe(find_engine()))
    doc = document.parse(yaml.safe_dump(spec), tmp_path / "placed.yaml")
    there, _ = simulated(doc, one.placeable.server).capacity()
    assert sum(rates) == pytest.approx(there, rel=2e-3)


def test_chains_have_lcores_and_a_group_each(tmp_path: Path) -> None:
    given = placeable(tmp_path, "chains: 1", 2, chains=2)
    chosen = settled(given)
    first, second = chosen.plan(1.0, "").chains
    taken = [cpu for chain in (first, second) for part in chain.segments for cpu in part.cpus]
    assert len(set(taken)) == len(taken) and not set(taken) & set(given.host_cpus)
    spec = chosen.spec(tmp_path / "round.yaml", describe(find_engine()))
    assert "ground" not in spec and list(spec["groups"]) == ["c0", "c1"]
    doc = document.parse(yaml.safe_dump(spec), tmp_path / "placed.yaml")
    for chain, point in zip((first, second), points(doc, Machine(8, 2)), strict=True):
        [one] = expand(point.doc)
        bare = arrange(one, point.doc, given.server.cpus, partial(cpu_of, given.server))
        [vnfs] = bare.chains
        assert bare.traffic == list(chain.host_cpus)
        assert [(v.nodes, v.lcores) for v in vnfs] == [
            (p.functions, p.cpus) for p in chain.segments
        ]


ONE_BESIDE = SERVER.replace("cores_per_socket: 8", "cores_per_socket: 2").replace(
    "  - {name: memory", f"{LLC.replace('shared_by: 4', 'shared_by: 2')}  - {{name: memory"
)


@pytest.mark.parametrize(("functions", "narrowest"), [(1, 0), (3, 1)])
def test_chains_that_share_an_lcore_carry_what_copies_on_one_do(
    tmp_path: Path, functions: int, narrowest: int
) -> None:
    """There is one lcore beside the host's, for the VNF of each chain. On it each waits for the
    other's slice of 100 us and has one itself; its link has 64 slots. The host polls the link of
    the one that does not run in vain."""
    hosting = "oversubscription: '2:1', slots: 64, chains: "
    given = placeable(tmp_path, f"{hosting}1", functions, text=ONE_BESIDE, chains=2)
    chosen = settled(given)
    assert chosen.answer.word == "optimal"
    plan = chosen.plan(1.0, "")
    assert [part.cpus for chain in plan.chains for part in chain.segments] == [(1,), (1,)]
    rates = [chain.carries_pps for chain in plan.chains]
    copies = placeable(
        tmp_path, f"{hosting}2, placement: explicit, lcores: [1, 1]", functions, text=ONE_BESIDE,
        more="  execution: rtc\n  lcores: {traffic: [0], chain: [1]}\n",
    )  # fmt: skip
    there, what = simulated(copies.doc, given.server).capacity()
    assert what == f"lcore {narrowest}" and sum(rates) == pytest.approx(there, rel=5e-4)
    [_, told] = plan.cautions
    assert f"turns of up to 0.2 ms in all, in which {rates[0] * 200e-6:.0f} packets" in told
    roomy = settled(replace(given, doc=given.doc, experiments=_with_slots(given, 1024)))
    assert len(roomy.plan(1.0, "").cautions) == 1


def test_lcores_are_shared_by_no_more_vnfs_than_the_ratio(tmp_path: Path) -> None:
    three = placeable(tmp_path, "oversubscription: '2:1'", text=ONE_BESIDE, chains=3)
    with pytest.raises(HeadraceError, match="no placement"):
        Placing(three.problem(), 2.0).answer()


def _with_slots(given: HostedPlaceable, slots: int) -> list[Experiment]:
    changed = []
    for one in given.experiments:
        study = one.study
        hosting = study.deployment.hosting.model_copy(update={"slots": slots})
        deployment = study.deployment.model_copy(update={"hosting": hosting})
        changed.append(replace(one, study=study.model_copy(update={"deployment": deployment})))
    return changed


def switched(seed: int) -> PlacementProblem:
    """A small problem whose segments take of a limit each, and more on the second area."""
    drawn = instance(seed)
    chains = tuple(
        chain.model_copy(update={"apart": (0, 300 * 10_000), "switch": 0, "switched": (150, 260)})
        for chain in drawn.chains
    )
    return drawn.model_copy(update={"chains": chains})


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1, 5, 6, 10])
def test_segments_behind_a_switch_are_placed_as_the_best_of_all(seed: int) -> None:
    problem = switched(seed)
    best, _, value = enumerate_all(problem)
    assert best is not None
    answer = Placing(problem, 3.0).answer()
    assert (answer.value, answer.certificate.bound) == (value, value)
    given = json.loads(answer.model_dump_json())
    check_placement.check(given)
    without = replace_switch(given)
    with pytest.raises(check_placement.Rejected):
        check_placement.check(without)


def replace_switch(given: dict[str, object]) -> dict[str, object]:
    """The same with segments that take nothing of the switch, and are as far from it anywhere."""
    other = json.loads(json.dumps(given))
    for chain in other["problem"]["chains"]:
        chain["switched"], chain["apart"] = [0, 0], [3_000_000, 3_000_000]
    return other  # type: ignore[no-any-return]


def test_the_aim_is_asked_for_where_it_is_known(tmp_path: Path) -> None:
    given = placeable(tmp_path, "chains: 1")
    with pytest.raises(BadInput, match="--aim latency: allowed with hosted VNFs"):
        replace(given, wish=PlacementWish("latency")).problem()
