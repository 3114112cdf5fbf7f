# SPDX-License-Identifier: Apache-2.0
"""Bad input is named by place, value and what is allowed; files add to and override knowledge."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.errors import BadInput
from headrace.graph.knowledge import Category, Knowledge, PlacedRule, load, with_declared
from headrace.graph.order_rules import parse_rules
from headrace.graph.parallel import Parallel, verdict
from headrace.graph.problem import compile_problem, resolve
from headrace.spec.appliance import Base


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("nat befor l4-lb", "at 'befor': expected one of before"),
        ("natt before l4-lb", "did you mean 'nat'?"),
        ("nat before", "at its end: expected a VNF"),
        ("(nat or ids before l4-lb", "expected ')'"),
        ("nat has at most x children", "expected a number"),
        ("nat has at most 1 leaf", "expected 'children'"),
        ("reads colour before nat", "expected one of mac, vlan"),
        ("nat first l4-lb", "expected the end of the rule"),
        ("nat within 3 steps", "expected 'hops'"),
        ("", "at its end"),
    ],
)
def test_bad_rule(rule: str, expected: str) -> None:
    knowledge = Knowledge(
        vnfs=load(base=Base.HEADRACE).vnfs, rules=(PlacedRule(place="r.yaml: rules[0]", text=rule),)
    )
    with pytest.raises(BadInput) as raised:
        parse_rules(knowledge)
    assert str(raised.value).startswith("r.yaml: rules[0]: ")
    assert expected in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("vnfs: {x: {category: network}}", "vnfs.x.category"),
        ("rulez: []", "rulez"),
        ("rules: [{rule: a, because: b}]", "rules[0].because"),
        ("vnfs: [", "not valid YAML"),
        ("vnfs: {x: {category: leaf, reads: [colour]}}", "vnfs.x.reads"),
        ("extends: all", "extends"),
    ],
)
def test_bad_file(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "k.yaml"
    file.write_text(text)
    with pytest.raises(BadInput, match=str(file)) as raised:
        load([file])
    assert expected in str(raised.value)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such file"):
        load([tmp_path / "none.yaml"])


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["natt"], "did you mean 'nat'"),
        (["nat:0"], "count '0'"),
        (["nat:x"], "count 'x'"),
        ([""], "letters, digits"),
        (["a b|c"], "letters, digits"),
        (["a:65"], "allowed: 1 to 64"),
    ],
)
def test_bad_vnf(names: list[str], expected: str) -> None:
    with pytest.raises(BadInput, match=expected):
        resolve(names, load())


def test_two_vnfs_of_one_name() -> None:
    knowledge = load()
    wanted, _ = resolve(["zz:2", "zz-1"], knowledge)
    with pytest.raises(BadInput, match="names two of the VNFs"):
        compile_problem(wanted, knowledge)


def test_unknown_vnf_is_taken_with_a_note() -> None:
    wanted, notes = resolve(["quux"], load())
    assert wanted[0].vnf.category is Category.UNCLASSIFIED
    assert "quux" in notes[0]


def test_names_and_aliases() -> None:
    wanted, _ = resolve(["L4 LB", "l4_lb", "load-balancer", "firewall"], load())
    assert [(w.kind, w.count) for w in wanted] == [("l4-lb", 3), ("ip-firewall", 1)]


def test_files_add_and_override(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("vnfs: {nat: {category: general}}\nrules: ['nat first']\n")
    knowledge = load([mine])
    assert knowledge.vnfs["nat"].category is Category.GENERAL
    assert knowledge.rules[-1].text == "nat first"
    assert len(knowledge.rules) == len(load().rules) + 1
    mine.write_text("extends: none\nvnfs: {a: {category: leaf}}\n")
    assert list(load([mine]).vnfs) == ["a"]
    assert load([mine]).rules == ()


def test_what_the_engine_declares(tmp_path: Path) -> None:
    described = tmp_path / "describe.json"
    nf = {
        "doc": "Access list. More.", "category": "network-oriented", "reads": ["src_ip"],
        "writes": [], "may_drop": True, "changes_volume": False,
    }  # fmt: skip
    described.write_text(json.dumps({"nfs": {"acl": nf}}))
    acl = with_declared(load(), described).vnfs["acl"]
    assert (acl.category, acl.title, acl.drops) == (Category.NETWORK, "Access list", True)
    described.write_text("{}")
    with pytest.raises(BadInput, match="not the output of"):
        with_declared(load(), described)


def test_parallel_verdicts() -> None:
    """NFP table 3."""
    vnfs = load(base=Base.HEADRACE).vnfs
    assert verdict(vnfs["ip-firewall"], vnfs["ips"]) is Parallel.SHARED
    assert verdict(vnfs["ip-firewall"], vnfs["nat"]) is Parallel.COPY
    assert verdict(vnfs["nat"], vnfs["ip-firewall"]) is Parallel.NO
    assert verdict(vnfs["nat"], vnfs["vpn"]) is Parallel.NO
    assert verdict(vnfs["ids"], vnfs["ip-firewall"]) is Parallel.NO
