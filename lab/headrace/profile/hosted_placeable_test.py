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
from headrace.errors import BadInput
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
from headrace.spec.placement import WHOLE, PlacementAnswer, PlacementProblem
from headrace.spec.server_file import read_server
from headrace.spec.study import expand

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
    kind: str = "process",
) -> HostedPlaceable:  # fmt: skip
    file = folder / "round.yaml"
    file.write_text(text)
    server = read_server(file)[1]
    chain = ", ".join(f"{{name: f{i}, nf: l2fwd}}" for i in range(functions))
    doc = document.parse(
        f"name: hosted\nchain: [{chain}]\n"
        f"deployment:\n  hosting: {{kind: {kind}, {hosting}}}\n{more}"
        "workload: {frame: 64, flows: {count: 64}}\n",
        folder / "hosted.yaml",
    )
    return HostedPlaceable(doc, list(expand(doc)), server, server, PlacementWish("rate"))


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
    [told] = machine.placeable.cautions
    assert told.endswith("links to machines were not measured, and cost here what processes' do.")


def test_a_machines_vnf_costs_what_the_description_says(tmp_path: Path) -> None:
    given = placeable(tmp_path, "chains: 1", functions=1, text=TWO_SOCKETS + MACHINES, kind="vm")
    [function] = given.problem().chains[0].functions
    cycles = (function.enter[0] + function.work[0] + function.leave) / 1e4 / 1e4 * 1e9 / 1e7
    assert cycles == pytest.approx(VNF + 30 + 5, rel=1e-6)
    host = SOURCE_AND_SINK + IN + POLL + OUT + POLL + 7 + 11
    assert carried(settled(given).answer) == pytest.approx(1e9 / host, rel=1e-3)
    assert "(`machines` of round: assumed: round numbers)" in given.cautions[1]


@pytest.mark.parametrize(
    ("hosting", "more", "words"),
    [
        ("oversubscription: '2:1'", "", "hosting.oversubscription: cannot place VNFs that share"),
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
