# SPDX-License-Identifier: Apache-2.0
"""Specs: what is understood, and what is said about those that are not."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import BadInput
from headrace.spec import document
from headrace.spec.base import rate_text
from headrace.spec.deployment import Execution
from headrace.spec.group import Machine
from headrace.spec.imix import FRAME_MAX, FRAME_MIN, GENOME_SIZES, Frame, spread_evenly
from headrace.spec.points import Wanted, points
from headrace.spec.study import Experiment, expand

GOOD = """\
name: edge
chain:
  - acl: {rules_file: a.rules}
  - lb: {}
  - l3fwd
deployment:
  execution: [rtc, pipeline, {segments: [[acl], [lb, l3fwd]], replicas: [2, 1]}]
workload:
  frame: [64, nfvbench]
measure: {search: [ndr, 0.5%]}
"""


def read(text: str) -> list[Experiment]:
    return list(expand(document.parse(text, Path("edge.yaml"))))


def message(text: str) -> str:
    with pytest.raises(BadInput) as caught:
        read(text)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_lists_are_swept() -> None:
    experiments = read(GOOD)
    assert [(e.execution.name, e.frame.name) for e in experiments] == [
        (execution, frame)
        for execution in ("rtc", "pipeline", "hybrid aclx2|lb+l3fwd")
        for frame in ("64", "imix-nfvbench")
    ]
    assert [goal.loss_ratio for goal in experiments[0].study.measure.search] == [1e-5, 0.005]


def test_sweep_reaches_parameters_of_functions() -> None:
    text = GOOD + "sweep: {chain.acl.default: [deny, permit], deployment.burst: [8, 32]}\n"
    experiments = read(text)
    assert len(experiments) == 24
    assert {e.nodes[0].params["default"] for e in experiments} == {"deny", "permit"}
    assert {e.study.deployment.burst for e in experiments} == {8, 32}


@pytest.mark.parametrize("chain", ["[]", "\n  - null", "\n  - acl\n  - acl"])
def test_chains(chain: str) -> None:
    nodes = read(f"name: x\nchain: {chain}\n")[0].nodes
    assert [node.name for node in nodes] in ([], ["null"], ["acl", "acl-2"])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("name: edge", "name: edge\ncolour: blue", ["edge.yaml:2: colour", "allowed: name"]),
        ("name: edge\n", "", ["'name' is missing"]),
        ("[rtc,", "[rtcx,", ["edge.yaml:7: deployment.execution[0]", "'rtcx'", "pipeline"]),
        ("[lb, l3fwd]]", "[lb]]", ["edge.yaml:7: deployment.execution[2].segments", "in order"]),
        ("[2, 1]", "[2]", ["replicas", "2 segments"]),
        ("[64, nfvbench]", "63", ["edge.yaml:9: workload.frame: got 63", "64 to 9018"]),
        ("name: edge", "nname: edge", ["nname", "did you mean 'name'?"]),
        ("name: edge", "name: 3d", ["edge.yaml:1: name", "'3d'", "a letter, then letters"]),
        ("workload:", "workload:\n  flows: {cout: 3}", ["flows.cout", "did you mean 'count'?"]),
        ("[64,", "[yes,", ["workload.frame[0]: got true"]),
        ("name: edge", "name:", ["name: got nothing; should be text"]),
        ("name: edge", "5: x\nname: edge", ["edge.yaml:1: got 5; a key should be text"]),
        ("measure: {", "measure: {goals: {width: 0}, ", ["measure.goals.width: got 0"]),
        ("deployment:", "deployment:\n  wire: 5", ["should be 'auto', or should be greater"]),
        ("workload:", "workload:\n  flows: many", ["'many'; allowed: a count, 1 to 2147483648"]),
        ("workload:", "workload:\n  flows: 1e99", ["'1e99'; allowed: a count, 1 to 2147483648"]),
        ("- lb: {}", "- {name: sink, nf: lb}", ["'sink' has the name of a part of the tester"]),
        ("[64,", "[63,", ["workload.frame[0]", "63", "64 to 9018"]),
        ("nfvbench", "{genome: abcq}", ["workload.frame[1]", "'q'", "RFC 6985"]),
        ("[ndr,", "[ndx,", ["measure.search[0]", "'ndx'"]),
        ("0.5%", "150%", ["measure.search[1]: got '150%'; should be less than 100%"]),
        ("measure: {", "measure: {goals: {width: 0%}, ", ["got '0%'; should be greater than 0%"]),
        ("- lb: {}", "- lb: 7", ["chain[1]", "7"]),
        ("- lb: {}", "- {lb: {}, acl: {}}", ["chain[1]", "one key"]),
        ("- lb: {}", "- {name: b, nf: lb, too: {}}", ["chain[1].too", "name, nf, params, to"]),
        ("- lb: {}", "- {nf: lb, to: {out: acl}}", ["'acl'", "l3fwd, out, drop"]),
        ("- lb: {}", "- {nf: lb, to: {out: acl}}", ["edge.yaml:4: chain[1].to.out: got", "backw"]),
        ("- lb: {}", "- {nf: lb, to: {out: x}}", ["chain[1].to.out: got 'x'; leads nowhere"]),
        ("measure: {", "measure: {trial: 1e-9, ", ["trial: got '1e-9'", "or equal to 0.05"]),
        ("[64, nfvbench]", "1e9", ["workload.frame: got '1e9'", "64 to 9018"]),
        ("frame: [64, nfvbench]", "- frame: 63", ["edge.yaml:9: workload[0].frame: got 63"]),
        ("workload:", "workload: [{kind: http}]\nx:", ["workload[0].kind: got 'http'", "pcap"]),
        ("deployment:", "deployment:\n  lcores: [0]", ["deployment.lcores", "at least 2"]),
        ("measure: {", "measure: {rates: [1M], ", ["measure.rates: unknown key; allowed: search"]),
        ("deployment:", "deployment:\n  burst: true", ["deployment.burst", "a number"]),
        ("deployment:", "deployment:\n  ring: 1000", ["deployment.ring", "power of two"]),
        ("workload:", "workload:\n  flows: 0", ["workload.flows", "0", "1"]),
        ("workload:", "workload:\n  dst_ips_file: a\n  tuples_file: b", ["exclude each other"]),
        (
            "workload:",
            "workload:\n  pcap: a",
            ["edge.yaml:9: workload.pcap", "{kind: pcap, file: a}"],
        ),
        ("workload:", "workload:\n  kind: pcap\n  file: a", ["workload.frame: unknown key"]),
        (
            "workload:",
            "workload:\n  kind: frames",
            ["workload.kind: got 'frames'", "packets, pcap"],
        ),
        ("measure: {", "measure: {max_load: 1k, ", ["measure", "max_load 1k", "min_load 10k"]),
        ("- lb: {}", "- lb: {a: 1, a: 2}", ["edge.yaml:4", "'a' is given twice"]),
        ("name: edge", "name: [", ["not valid YAML"]),
        ("name: edge", "name: edge\nsweep: {deployment.burst: [8, 65]}", ["sweep", "65"]),
        ("name: edge", "name: edge\nsweep: {chain.nat.x: [8]}", ["sweep.chain.nat.x", "'nat'"]),
    ],
)
def test_bad_specs_name_place_value_and_what_is_allowed(
    old: str, new: str, words: list[str]
) -> None:
    assert old in GOOD
    error = message(GOOD.replace(old, new, 1))
    assert error.startswith("edge.yaml")
    for word in words:
        assert word in error


@pytest.mark.parametrize(
    ("written", "pps", "shown"),
    [("1e6", 1e6, "1M"), ("1.5M", 1.5e6, "1.5M"), ("2.5e+3", 2500, "2.5k"), ("999", 999, "999")],
)
def test_rates_are_read_and_said_as_specs_have_them(written: str, pps: float, shown: str) -> None:
    [experiment, *_] = read(GOOD.replace("measure: {", f"measure: {{loads: [{written}], ", 1))
    assert experiment.study.measure.loads == (pps,)
    assert rate_text(pps) == shown


# No deadline: on a machine that others use, too, an example may wait longer than hypothesis allows.
@settings(deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_a_spec_or_bad_input(text: str) -> None:
    try:
        read(text)
    except BadInput as error:
        assert str(error).startswith("edge.yaml")


@settings(deadline=None)
@given(st.dictionaries(st.integers(FRAME_MIN, FRAME_MAX), st.integers(1, 30), min_size=1))
def test_even_spread_keeps_the_shares(weights: dict[int, int]) -> None:
    sequence = spread_evenly(weights)
    total, length = sum(weights.values()), len(sequence)
    for size, weight in weights.items():
        assert sequence.count(size) * total == weight * length
        # In each prefix a size is within one of its share: that is what "evenly" means.
        for end in range(1, length + 1):
            assert abs(sequence[:end].count(size) - end * weight / total) <= len(weights)


@settings(deadline=None)
@given(st.text(alphabet="".join(GENOME_SIZES), min_size=1, max_size=64))
def test_genome_is_a_sequence(genome: str) -> None:
    frame = Frame.model_validate({"genome": genome})
    assert frame.sizes == tuple(GENOME_SIZES[letter] for letter in genome)


@pytest.mark.parametrize("word", ["big", "face", "aaaaaaabbbbg", "nfvbech", "IMIX", ""])
def test_a_bare_word_is_no_genome(word: str) -> None:
    """Words are made of `a` to `i`: one that names no mix is refused with what is allowed."""
    told = message(f"name: x\nchain: [l2fwd]\nworkload: {{frame: {word!r}}}\n")
    assert told.startswith(
        f"edge.yaml:3: workload.frame: got {word!r}; there is no such mix; allowed: a frame size"
    )
    assert "nfvbench, trex, csit" in told and "{genome: aaaaaaabbbbg}" in told


def test_genome_with_a_size_of_its_own() -> None:
    assert Frame.model_validate({"genome": "aaz", "z": 700}).sizes == (64, 64, 700)


@pytest.mark.parametrize(
    ("written", "name", "flows"),
    [
        ("rtc", "rtc", 0),
        ({"model": "rtc", "fastpath": True}, "rtc fast path", 65536),
        ({"model": "pipeline", "fastpath": False}, "pipeline", 0),
        ({"segments": [["acl", "lb"]], "fastpath": 1024}, "hybrid acl+lb fast path", 1024),
        ({"model": "rtc", "fastpath": True, "name": "quick"}, "quick", 65536),
    ],
)
def test_fast_path(written: object, name: str, flows: int) -> None:
    execution = Execution.model_validate(written)

    assert (execution.name, execution.fastpath_flows) == (name, flows)


@pytest.mark.parametrize("flows", [0, 1, 3, -1, "many", 1 << 25])
def test_a_fast_path_of_a_wrong_size(flows: object) -> None:
    with pytest.raises(ValueError, match="fastpath"):
        Execution.model_validate({"model": "rtc", "fastpath": flows})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        # What older specs had, and what took its place.
        (
            "compare: {vnfs: 3}",
            ["edge.yaml:2: compare", "now `deployment: {hosting: {kind: offload, vnfs: 3}}`"],
        ),
        (
            "chaos: {every: 1}",
            ["edge.yaml:2: chaos", "{kind: offload}}, measure: {chaos: {every: 1}}`"],
        ),
        (
            "convergence: {rounds: 1}",
            ["edge.yaml:2: convergence", "measure: {convergence: {rounds: 1}}`"],
        ),
        (
            "compare: {modes: [offload], flows: 9, load: 5k, duration: 2, search: [ndr], gone: 1}",
            [
                "{kind: offload, modes: [offload]}}, workload: {flows: 9}, "
                "measure: {loads: 5k, trial: 2, search: [ndr]}`"
            ],
        ),
        ("compare: [offload, ovs-dpdk]", ["{kind: offload, modes: [offload, ovs-dpdk]}}`"]),
        ("about: a table", ["edge.yaml:2: about", "now `description`"]),
        ("source: a paper", ["edge.yaml:2: source", "now `paper`"]),
        ("data: t.csv", ["edge.yaml:2: data", "now `table` of `ground: {fitted: {...}}`"]),
        ("model: clock", ["edge.yaml:2: model", "now `model` of `ground: {fitted: {...}}`"]),
        ("unknowns: {}", ["edge.yaml:2: unknowns", "now `unknowns` of `ground: {fitted: {...}}`"]),
        ("base: {chain: []}", ["edge.yaml:2: base", "beside `groups`"]),
        ("ports: {a: {}}", ["edge.yaml:2: ports", "hosting: {kind: offload}"]),
        (
            "chain: [nat]\ndeployment: {hosting: container, network: [bridge, ovs]}",
            ["edge.yaml:3: deployment.network", "{kind: appliances, network: [bridge, ovs]}}`"],
        ),
        (
            "chain: [nat]\ndeployment: {hosting: {kind: container}, network: macvlan}",
            ["deployment.network", "hosting: {kind: appliances, network: macvlan}}`"],
        ),
        (
            "chain: [nat]\ndeployment: {hosting: container}\nbaseline: true",
            ["edge.yaml:4: baseline", "hosting: {kind: appliances}"],
        ),
        (
            "chain: [nat]\ndeployment: {hosting: appliances}\nvnfs: {nat: {cpus: 1}}",
            ["edge.yaml:4: vnfs", "`vnfs` of `deployment: {hosting: {kind: appliances}}`"],
        ),
        (
            "chain: [nat]\ndeployment: {hosting: appliances, network: ovs}",
            ["edge.yaml:3: deployment.network", "it is deployment.hosting.network"],
        ),
        (
            "chain: [nat]\ndeployment: {hosting: appliances}\nworkload: {kind: http, duration: 1}",
            ["edge.yaml:4: workload.duration", "measure: {trial}"],
        ),
        # Keys of one kind beside another.
        (
            "graphs: {vnfs: [nat]}",
            ["edge.yaml:2: graphs", "hosting appliances; got hosting inline"],
        ),
        (
            "chain: []\ndeployment: {hosting: {kind: process, modes: [offload]}}",
            ["deployment.hosting.modes", "hosting offload; got kind process"],
        ),
        (
            "chain: []\ndeployment: {hosting: {kind: process, modess: 1}}",
            ["deployment.hosting.modess: unknown key", "chains"],
        ),
        (
            "chain: []\ndeployment: {hosting: {kind: offload}}",
            ["edge.yaml:2: chain", "got hosting offload"],
        ),
        (
            "deployment: {hosting: {kind: offload, routes: 0}}",
            ["edge.yaml:2: deployment.hosting.routes: got 0", "1"],
        ),
        ("chain: []\ndeployment: {hosting: cloud}", ["deployment.hosting", "cloud", "appliances"]),
        ("chain: []\nmeasure: {chaos: {}, loads: [1k]}", ["measure.chaos", "process, container"]),
        (
            "chain: []\ndeployment: {hosting: process}\nmeasure: {chaos: {}}",
            ["edge.yaml:4: measure", "one load"],
        ),
        (
            "chain: []\nclaims: {c: {text: t, query: q}}",
            ["edge.yaml:3: claims.c", "give `published`"],
        ),
        (
            "chain: []\nclaims: {c: {text: t, query: q, published: [2, 1]}}",
            ["edge.yaml:3: claims.c", "[least, most]"],
        ),
        (
            "chain: []\nclaims: {c: {text: t, query: q, published: [1, 2, 3]}}",
            ["edge.yaml:3: claims.c.published: got [1, 2, 3]; allowed: a number, [least, most]"],
        ),
    ],
)
def test_keys_are_where_they_belong(text: str, words: list[str]) -> None:
    error = message(f"name: edge\n{text}\n")
    assert error.startswith("edge.yaml")
    for word in words:
        assert word in error


def test_container_is_for_headraces_own_functions_in_both_forms() -> None:
    for hosting in ("container", "{kind: container}"):
        [one] = read(f"name: x\nchain: [l2fwd]\ndeployment: {{hosting: {hosting}}}\n")
        assert one.hosting.kind == "container"


def test_several_kinds_of_traffic_are_every_of_their_own() -> None:
    text = "workload: [{frame: [64, 128], flows: 3}, {kind: pcap, file: a.pcap}]\n"
    every = read(f"name: x\nchain: []\n{text}")
    assert [one.workload_name for one in every] == [
        "64B 3 flows",
        "128B 3 flows",
        "pcap:a.pcap",
    ]
    assert [len(one.study.workload) for one in every] == [1, 1, 1]


def test_traffic_that_differs_in_the_order_of_its_flows_alone_is_told_apart() -> None:
    """Else its results were taken for repetitions of one workload."""
    text = """\
workload:
  - {frame: [64, 128], flows: 3}
  - {frame: 64, flows: {count: 3, order: zipf}}
  - {frame: 64, flows: {count: 3, order: zipf, zipf_exponent: 0.8}}
  - {frame: 64, flows: {count: 4, order: random}}
"""
    assert [one.workload_name for one in read(f"name: x\nchain: []\n{text}")] == [
        "64B 3 flows round-robin",
        "128B 3 flows",
        "64B 3 flows zipf 1.0",
        "64B 3 flows zipf 0.8",
        "64B 4 flows",
    ]


@pytest.mark.parametrize(
    ("one", "other", "names"),
    [
        (
            "flows: {count: 3, order: random}",
            "flows: {count: 3, order: random, seed: 2}",
            ("flows.seed=1", "flows.seed=2"),
        ),
        ("flows: 3", "flows: {count: 3, seed: 2}", ("", "")),  # no order that it would draw
        (
            "flows: {count: 3, vary: [src_ip]}",
            "flows: {count: 3, vary: [src_ip, dst_port]}",
            ("flows.vary=src_ip", "flows.vary=src_ip,dst_port"),
        ),
        (
            "flows: 3",
            "{flows: 3, headers: {l4: tcp, vlan: 7}}",
            ("headers.l4=udp no headers.vlan", "headers.l4=tcp headers.vlan=7"),
        ),
        ("flows: 3", "{flows: 3, stamp: false}", ("stamp=True", "stamp=False")),
        (
            "{flows: 3, load: [[0 s, 1M], [1 s, 1M]]}",
            "{flows: 3, load: [[0 s, 2M], [1 s, 2M]]}",
            ("load of workload 1", "load of workload 2"),
        ),
        ("{kind: pcap, file: a/x.pcap}", "{kind: pcap, file: x.pcap}",
         ("file=a/x.pcap", "file=x.pcap")),
    ],
)  # fmt: skip
def test_traffic_that_differs_in_anything_has_a_name_of_its_own(
    one: str, other: str, names: tuple[str, str]
) -> None:
    given = ", ".join(text if text.startswith("{") else f"{{{text}}}" for text in (one, other))
    measure = "measure: {operate: {slo: p99=1ms}}\nground: {simulated: {server: x}}\n"
    measure *= "load" in one
    every = read(f"name: x\nchain: []\nworkload: [{given}]\n{measure}")
    common = "pcap:x.pcap" if "pcap" in one else "64B 3 flows"
    assert [one.workload_name for one in every] == [f"{common} {name}".strip() for name in names]


def test_a_groups_mistake_is_named_where_it_stands() -> None:
    text = """\
name: x
deployment: {hosting: process}
workload: {frame: 63}
groups:
  a: {about: one, spec: {chain: []}}
  b: {about: two, spec: {chain: [], workload: {frame: 62}}}
  c: {about: three, spec: {chain: [], workload: {frame: 64}}, sweep: {deployment.burst: [65]}}
"""
    doc = document.parse(text, Path("edge.yaml"))
    places = {"a": "edge.yaml:3: workload.frame: got 63",
              "b": "edge.yaml:6: groups.b.spec.workload.frame: got 62",
              "c": "edge.yaml:7: groups.c.sweep.deployment.burst: got 65"}  # fmt: skip
    with pytest.raises(BadInput, match=r"workload\.frame"):
        points(doc, Machine(2, 1))  # what is wrong in all of them
    good = document.parse(text.replace("63", "64"), Path("edge.yaml"))
    assert [point.name for point in points(good, Machine(2, 1))] == ["a-1", "b-1", "c-1"]
    for group in ("b", "c"):
        [point] = points(good, Machine(2, 1), Wanted(group))
        with pytest.raises(BadInput) as caught:
            list(expand(point.doc))
        assert str(caught.value).startswith(places[group])
