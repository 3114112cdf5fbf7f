# SPDX-License-Identifier: Apache-2.0
"""What commands print with --json is what docs/reference/json-schema.json says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from typer.testing import CliRunner

from headrace.cli import _schema, build
from headrace.cli._commands import listed
from headrace.cli._testdata import PUBLISHED, published, valid
from headrace.host import state
from headrace.record.testdata import make_bundle

REPO = PUBLISHED.parents[2]


def call(*arguments: str | Path) -> str:
    done = CliRunner().invoke(build([str(arguments[0])]), [*map(str, arguments), "--json"])
    assert done.exit_code in (0, 1), done.output
    return done.stdout


@pytest.mark.parametrize("name", _schema.generated())
def test_what_is_published_is_what_the_models_say(name: str) -> None:
    assert (PUBLISHED.parent / name).read_text() == _schema.generated()[name], "run `make docs`"


class Commented:
    """Fields whose comments are behind them, go on below them, or stand above them."""

    alone: int
    behind: int  # bytes of a frame
    longer: int  # a share of what was sent, where
    # nothing was kept
    # What the next one is: two
    # lines of it.
    above: int
    both: int = 0  # a count
    # The last one's, and no more.
    last: int = 0


def test_a_comment_describes_the_field_that_it_belongs_to() -> None:
    assert _schema.comments(Commented) == {
        "behind": "bytes of a frame",
        "longer": "a share of what was sent, where nothing was kept",
        "above": "What the next one is: two lines of it",
        "both": "a count",
        "last": "The last one's, and no more",
    }


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(published())
    twice = [name for name in published()["$defs"] if "__" in name]
    assert twice == [], "two models of one name: the schema cannot name them"


def test_every_command_that_prints_has_json_and_a_model() -> None:
    root = typer.main.get_command(build(listed()))
    printing = set(_with_json(root))
    # `schema` prints nothing but JSON; `serve` answers browsers, `agent` another server's lab.
    assert set(_commands(root)) - printing == {"schema", "serve", "agent"}
    assert printing == {" ".join(re.findall(r"[a-z]+", name.split("NAME")[0].split("--")[0]))
                        for name in _schema.OUTPUTS}  # fmt: skip


def _commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    below = getattr(command, "commands", {})
    if not below:
        yield " ".join(path)
    for name, inner in below.items():
        yield from _commands(inner, (*path, name))


def _with_json(command: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    if any("--json" in one.opts for one in command.params):
        yield " ".join(path)
    for name, inner in getattr(command, "commands", {}).items():
        yield from _with_json(inner, (*path, name))


def test_docs_list_every_output() -> None:
    listed = (REPO / "docs" / "json.md").read_text()
    missing = [name for name in _schema.OUTPUTS if f"`{name}" not in listed]
    assert missing == []


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_bundle(tmp_path_factory.mktemp("json") / "edge", repetitions=2)


def test_what_is_made_of_bundles(bundle: Path) -> None:
    assert valid("report", call("report", bundle))["state"] == "complete"
    assert valid("diff", call("diff", bundle, bundle))["changed"] is False
    assert valid("explain", call("explain", bundle))


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("server detect", ["server", "detect"]),
        ("chains", ["chains", "nat", "ids", "l4-lb"]),
        ("chains --count", ["chains", "nat", "ids", "l4-lb", "--count"]),
        ("hosting capacity", ["hosting", "capacity", "--lcores", "4"]),
        ("run --list", ["run", "s1", "--group", "bare-metal-l2", "--list"]),
        ("vnf list", ["vnf", "list"]),
        ("vnf describe", ["vnf", "describe", "ids"]),
        ("doctor", ["doctor"]),
        ("collect --check", ["collect", "--check"]),
    ],
)
def test_what_needs_neither_engine_nor_bundle(command: str, arguments: list[str]) -> None:
    assert valid(command, call(*arguments))


def test_the_catalogue_needs_no_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where neither podman nor docker is installed nothing is built, and it can be read."""
    monkeypatch.setenv("PATH", "")
    told = valid("vnf list", call("vnf", "list"))
    assert told and not any(one["built"] for one in told)
    done = CliRunner().invoke(build(["vnf"]), ["vnf", "list"])
    assert done.exit_code == 0 and "neither podman nor docker is installed" in done.stderr


def test_collect(tmp_path: Path) -> None:
    out = tmp_path / "samples"
    command = ["collect", "--json", "--out", str(out), "--layer", "os", "--"]
    done = CliRunner().invoke(build(["collect"]), [*command, "sh", "-c", "echo said; exit 1"])
    printed = valid("collect", done.stdout)
    assert done.exit_code == 1
    assert (printed["folder"], printed["status"]) == (str(out), 1)
    assert printed["sampled"] == json.loads((out / "collectors.json").read_text())
    lines = (out / "os.jsonl").read_text().splitlines()
    assert printed["sampled"]["layers"]["os"]["cost"]["samples"] == len(lines) >= 2


def test_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "state_directories", lambda: [tmp_path])
    (tmp_path / "run-1").mkdir()  # no owner is named: it is gone
    done = valid("clean", call("clean"))["done"]  # what else killed runs left here is there, too
    assert any("run-1" in one for one in done)


def test_an_output_of_another_form_is_refused() -> None:
    good: dict[str, Any] = {"count": 1, "graphs": [{"nat": None}]}
    bad = [good | {"more": 1}, {"count": 1}, good | {"count": "1"}, good | {"graphs": [{"nat": 1}]}]
    for one in bad:
        with pytest.raises(ValidationError):
            valid("chains", str(one).replace("'", '"').replace("None", "null"))
