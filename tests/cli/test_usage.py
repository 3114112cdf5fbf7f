# SPDX-License-Identifier: Apache-2.0
"""Commands and options that there are not: one line on stderr, status 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.lab import headrace

pytestmark = pytest.mark.parallel

CASES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "unknown command": (("rum",), ("headrace: ", "'rum'", "'run'")),
    "unknown option": (("run", "--jsn", "x.yaml"), ("headrace run: ", "--jsn", "--json")),
    "missing argument": (("run",), ("headrace run: ", "missing argument", "headrace run --help")),
    "out of range": (("run", "--wait", "-1", "x.yaml"), ("--wait", "greater than or equal to 0")),
    "not a number": (("chains", "nat", "--limit", "x"), ("--limit", "integer")),
    "too many arguments": (("report", "a", "b"), ("headrace report: ", "(b)")),
    "duration": (("collect", "--duration", "-1"), ("--duration: got -1.0", "above 0")),
    "period": (("collect", "--period", "0"), ("--period: got 0.0", "0.01 s or more")),
    "parameter": (("profile", "l2fwd", "--param", "zz=1"), ("--param: got 'zz'", "allowed: ")),
    "command of a command": (("server", "none"), ("headrace server: ", "'none'")),
}


@pytest.mark.parametrize("case", CASES)
def test_one_line_and_status_2(case: str, engine_binary: Path, tmp_path: Path) -> None:
    arguments, words = CASES[case]
    done = headrace(*arguments, folder=tmp_path, engine=engine_binary)
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    for word in words:
        assert word in line


@pytest.mark.parametrize("command", ["", "server", "bench"])
def test_without_arguments_the_commands_are_listed(
    command: str, engine_binary: Path, tmp_path: Path
) -> None:
    done = headrace(*command.split(), folder=tmp_path, engine=engine_binary)
    assert done.returncode == 2
    assert "Usage: headrace" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("columns", ["", "60", "80"])
def test_names_that_have_to_be_typed_are_never_cut(
    columns: str, engine_binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    done = headrace("nf", "nat", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 0
    assert "static[].inside_port" in done.stdout
    assert "…" not in done.stdout
    assert columns or "endpoint-dependent or endpoint-independent" in done.stdout
