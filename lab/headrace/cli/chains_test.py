# SPDX-License-Identifier: Apache-2.0
"""The command as a user and a script meet it."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
import typer
from typer.testing import CliRunner, Result

from headrace.cli.chains import chains
from headrace.errors import BadInput

FIVE = ["ids", "nat", "l4-lb", "l7-cache", "ip-firewall"]


def call(*arguments: str) -> Result:
    app = typer.Typer()
    app.command()(chains)
    result = CliRunner().invoke(app, list(arguments))
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_count() -> None:
    assert call(*FIVE, "--count").stdout == "8\n"
    assert json.loads(call(*FIVE, "--count", "--json").stdout) == {"count": 8}
    assert call("a", "b", "c", "d", "--no-rules", "--count").stdout == "64\n"


@pytest.mark.parametrize("more", [[], ["--limit", "3"], ["--sample", "3"], ["--limit", "9"]])
def test_json_is_one_object(more: list[str]) -> None:
    output = json.loads(call(*FIVE, "--json", *more).stdout)
    assert output["count"] == 8
    wanted = min(8, int(more[1])) if more else 8
    assert len(output["graphs"]) == wanted
    for graph in output["graphs"]:
        assert set(graph) == set(FIVE)
        assert list(graph.values()).count(None) == 1


def test_no_graph_at_all_is_still_an_object() -> None:
    assert json.loads(call("ids:2", "--json").stdout) == {"count": 0, "graphs": []}


def test_why_there_is_none(tmp_path: Path) -> None:
    """The rules that contradict each other, and none that has no part in it."""
    rules = tmp_path / "mine.yaml"
    rules.write_text("extends: none\nvnfs: {a: {category: general}, b: {category: general}}\n"
                     "rules: [a first, a before b, b first]\n")  # fmt: skip
    result = call("a", "b", "--rules", str(rules), "--count")
    assert result.stdout == "0\n"
    assert "no graph satisfies all of: " in result.stderr
    assert "'b first'" in result.stderr and ("'a first'" in result.stderr) != (
        "'a before b'" in result.stderr
    )
    assert "no graph satisfies 'leaf has no children'" in call("ids:2", "--count").stderr


@pytest.mark.parametrize(
    "options",
    [["--count", "--limit", "3"], ["--count", "--draw"], ["--json", "--draw"], ["--seed", "3"]],
)
def test_an_option_without_effect_is_refused(options: list[str]) -> None:
    with pytest.raises(BadInput, match=options[0]):
        call(*FIVE, *options)


def test_a_set_without_end_is_cut_short() -> None:
    text = call(*(f"v{i}" for i in range(20)), "--no-rules").stdout
    assert f"{20**19:,} chain graphs; shown: the first 20" in text


def test_the_seed_decides_the_sample() -> None:
    names = [f"v{i}" for i in range(12)]
    first, same, other = (
        call(*names, "--no-rules", "--json", "--sample", "5", "--seed", seed).stdout
        for seed in ("1", "1", "2")
    )
    assert first == same != other


def test_drawings(tmp_path: Path) -> None:
    text = call("nat", "ids", "ip-firewall", "--draw").stdout
    assert "nat\n├─ ids\n└─ ip-firewall\n" in text or "nat\n├─ ip-firewall\n└─ ids\n" in text
    file = tmp_path / "graphs.svg"
    call(*FIVE, "--svg", str(file))
    boxes = ElementTree.parse(file).getroot().iter("{http://www.w3.org/2000/svg}rect")
    assert len(list(boxes)) == 8 * 5 + 1  # and the background


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    rules = tmp_path / "mine.yaml"
    rules.write_text("vnfs: {sbc: {category: host-oriented}}\nrules: [sbc last, nat first]\n")
    assert call("nat", "sbc", "l4-lb", "--rules", str(rules), "--count").stdout == "1\n"
    rules.write_text("rules: [nat befor sbc]\n")
    with pytest.raises(BadInput, match="rules\\[0\\]"):
        call("nat", "--rules", str(rules))


def test_an_unwritable_picture_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="--svg"):
        call("nat", "--svg", str(tmp_path / "none" / "x.svg"))


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "{}\n", "rules: []\nvnfs: {}\n"])
def test_rules_that_say_nothing_are_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "none.yaml"
    file.write_text(text)
    with pytest.raises(BadInput, match=r"none\.yaml.*holds nothing; allowed: extends, vnfs, rules"):
        call("nat", "ids", "--rules", str(file))


def test_a_limit_of_a_sample_is_refused() -> None:
    with pytest.raises(BadInput, match="--limit and --sample"):
        call("nat", "ids", "--limit", "1", "--sample", "1")


@pytest.mark.parametrize(("typed", "meant"), [("nta", "nat"), ("ipfirewal", "ip-firewall")])
def test_a_name_near_a_known_one_is_refused(typed: str, meant: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=f"'{typed}': not known; did you mean '{meant}'"):
        call("nat", typed, "--count")
    mine = tmp_path / "mine.yaml"  # what a file declares is no typing error
    mine.write_text(f"vnfs: {{{typed}: {{category: general}}}}\n")
    assert call("ids", typed, "--count", "--rules", str(mine)).exit_code == 0
