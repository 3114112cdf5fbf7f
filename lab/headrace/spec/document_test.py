# SPDX-License-Identifier: Apache-2.0
"""YAML as users write it: anchors, `<<`, and where each value stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from headrace.errors import BadInput
from headrace.spec import document
from headrace.spec.document import Document, parse
from headrace.spec.group import Machine
from headrace.spec.points import Wanted, points
from headrace.spec.study import expand

FILE = Path("mine.yaml")


def test_merged_keys_count_unless_they_are_given() -> None:
    """YAML 1.1's merge: what the mapping has itself counts, then the first one merged."""
    doc = parse("a: &a {x: 1, y: 2}\nb: &b {y: 5, z: 6}\nc:\n  y: 3\n  <<: [*a, *b]\n", FILE)
    assert doc.data["c"] == {"x": 1, "y": 3, "z": 6}
    lines = [doc.line(("c", key)) for key in ("x", "y", "z")]
    assert lines == [1, 4, 2]


def test_lines_and_data_are_those_of_pyyamls_own_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """\
# a comment
a: &a
  x: [1, 2.5, "three", ]
  y: |
    of
    several lines
b:
  <<: *a
  y:
  z: {p: yes, q: ~, r: 0x10}
c: []
d:
  - e: 2001-01-01
  -
    f: 'g'
"""
    paths: list[tuple[str | int, ...]] = [
        ("a", "x", 1), ("a", "y"), ("b", "x"), ("b", "y"), ("b", "z", "q"), ("b", "nothing"),
        ("c",), ("d", 0, "e"), ("d", 1), ("d", 1, "f"),
    ]  # fmt: skip
    fast = parse(text, FILE)
    monkeypatch.setattr(document, "_FastLoader", document._Loader)
    slow = parse(text, FILE)
    assert fast.data == slow.data == yaml.safe_load(text)
    lines = [3, 4, 3, 9, 10, 8, 11, 13, 15, 15]
    assert [[one.line(path) for path in paths] for one in (fast, slow)] == [lines, lines]


def test_a_key_that_is_given_twice_is_refused() -> None:
    with pytest.raises(BadInput, match=r"mine\.yaml:2: not valid YAML: key 'x' is given twice"):
        parse("a: {<<: {x: 1}, x: 2}\nb: {x: 1, x: 2}\n", FILE)


def test_merging_has_an_end() -> None:
    """40 lines that would be 2^39 keys."""
    more = (f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}" for i in range(1, 40))
    with pytest.raises(BadInput, match="131072 keys with `<<`; allowed: 100000"):
        parse("\n".join(["a0: &a0 {x: 1}", *more]), FILE)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("only text", "--quick: mine.yaml has no `quick`"),
        ("name: x\nquick: 3", "mine.yaml:2: quick: got 3; allowed: keys of a study"),
    ],
)
def test_quick_of_what_is_no_study(text: str, problem: str) -> None:
    doc: Document = parse(text, FILE)
    with pytest.raises(BadInput, match=f"^{re.escape(problem)}"):
        points(doc, Machine(2, 1), Wanted(quick=True))


def test_keys_that_do_not_go_together_have_a_line() -> None:
    doc = parse("name: x\nchain: [l2fwd]\ndeployment: {engine: nftables}\n", FILE)
    with pytest.raises(BadInput, match=r"^mine\.yaml:3: deployment\.engine: nftables has its"):
        list(expand(doc))


def test_the_function_null_in_its_long_form() -> None:
    """YAML reads its name as nothing, as in the short form."""
    doc = parse("name: x\nchain: [{name: q, nf: null}, null]\n", FILE)
    [one] = expand(doc)
    assert [(node.name, node.nf) for node in one.nodes] == [("q", "null"), ("null", "null")]


@pytest.mark.parametrize(("text", "got"), [("", "nothing"), ("- a\n", r"\['a'\]")])
def test_what_is_no_mapping_is_shown(text: str, got: str) -> None:
    with pytest.raises(
        BadInput, match=rf"^mine\.yaml(:1)?: got {got}; a spec is a mapping; allowed"
    ):
        list(expand(parse(text, FILE)))
