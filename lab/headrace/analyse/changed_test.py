# SPDX-License-Identifier: Apache-2.0
"""What was asked is compared by the leaf; what follows from it is not listed beside."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer import Typer
from typer.testing import CliRunner

from headrace.analyse.changed import asked
from headrace.cli.diff import diff
from headrace.record.bundle import Bundle, BundleWriter
from headrace.record.rows import Result
from headrace.record.testdata import environment, make_bundle
from headrace.spec import document
from headrace.spec.study import expand

SPEC = """\
name: edge
chain: [{acl: {rules_file: a.rules}}, l2fwd]
deployment: {execution: [rtc, pipeline]}
measure: {search: [ndr, pdr], loads: [5k, 6k]}
"""


def bundle(
    path: Path, text: str = SPEC, lcore: int = 1, rules: str = "x", results: Sequence[Result] = ()
) -> Path:
    """As a run writes it, with a plan in which the rate and the lcore stand, too."""
    with BundleWriter(path) as writer:
        experiments: list[dict[str, Any]] = [
            {
                "chain": e.chain,
                "execution": e.execution.name,
                "workload": e.workload_name,
                "study": e.study.model_dump(mode="json", by_alias=True),
                "lcores": {"chain": [lcore]},
                "plan": {"loads": list(e.study.measure.loads), "lcores": [lcore]},
            }
            for e in expand(document.parse(text, Path("edge.yaml")))
        ]
        writer.spec(text, {"inputs": {"a.rules": "inputs/0"}, "experiments": experiments})
        (path / "inputs").mkdir()
        (path / "inputs" / "0").write_text(rules)
        writer.environment(environment())
        for one in results:
            writer.result(one)
    return path


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ("6k", "7k", [("measure.loads[1]", "6k", "7k")]),
        ("6k]", "6k, 1e6]", [("measure.loads[2]", None, "1M")]),
        ("l2fwd", "{l2fwd: {x: 1}}", [("chain.l2fwd.params.x", None, "1")]),
        ("rtc, pipeline", "rtc", [("deployment.execution.pipeline", "{", None)]),
        ("6k]", "6k], goals: {width: 2%}", [("measure.goals.width", "0.01", "0.02")]),
        ("edge", "core", [("name", "edge", "core")]),
        ("rtc,", "rtc  ,", []),
    ],
)
def test_one_line_for_each_leaf(
    tmp_path: Path, old: str, new: str, changes: list[tuple[str, str | None, str | None]]
) -> None:
    a, b = bundle(tmp_path / "a"), bundle(tmp_path / "b", SPEC.replace(old, new, 1), lcore=2)
    listed = [c for c in asked(Bundle(a), Bundle(b)) if "lcores" not in c[0]]
    assert [name for name, _, _ in listed] == [name for name, _, _ in changes]
    for one, wanted in zip(listed, changes, strict=True):
        for got, expected in zip(one[1:], wanted[1:], strict=True):
            assert (got is None) == (expected is None)
            assert got is None or got.startswith(expected or "")


def test_lcores_are_named_if_they_alone_differ(tmp_path: Path) -> None:
    a, b = bundle(tmp_path / "a"), bundle(tmp_path / "b", lcore=2)
    names = {name.partition(".")[2] for name, _, _ in asked(Bundle(a), Bundle(b))}
    assert names == {"lcores.chain[0]", "plan.lcores[0]"}


def test_a_file_of_the_same_name_and_other_contents(tmp_path: Path) -> None:
    a, b = bundle(tmp_path / "a"), bundle(tmp_path / "b", rules="other")
    [(name, left, right)] = asked(Bundle(a), Bundle(b))
    assert name == "contents of a.rules"
    assert left and right and left.startswith("1 bytes") and right.startswith("5 bytes")


def test_diff_prints_values_whole(tmp_path: Path) -> None:
    long = "x" * 300
    results = Bundle(make_bundle(tmp_path / "c")).results()
    described = SPEC.replace("name: edge", f"name: edge\ndescription: {long}")
    a = bundle(tmp_path / "a", results=results)
    b = bundle(tmp_path / "b", described, results=results)
    app = Typer()
    app.command()(diff)
    done = CliRunner().invoke(app, [str(a), str(b)])
    assert done.exit_code == 0
    assert f"  spec description: none -> {long}\n" in done.output.replace('"" ->', "none ->")
    assert "…" not in done.output
