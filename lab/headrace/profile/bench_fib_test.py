# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os

import pytest
from typer.testing import CliRunner

from headrace.cli._testdata import valid
from headrace.cli.bench import app
from headrace.errors import BadInput, HeadraceError
from headrace.host.exclusive import HeldLcores
from headrace.profile.bench_fib import find_program, parse_entries, run_bench


@pytest.mark.parametrize(
    ("text", "n"), [("1", 1), ("1k", 1000), ("16M", 16_000_000), ("1G", 10**9), ("1_000", 1000)]
)
def test_entries(text: str, n: int) -> None:
    assert parse_entries(text) == n


@pytest.mark.parametrize("text", ["0", "", "-1", "1.5", "3G", "x", "1T"])
def test_bad_entries_name_what_is_allowed(text: str) -> None:
    with pytest.raises(BadInput, match=r"--entries: .*allowed: 1\.\.2147483648"):
        parse_entries(text)


@pytest.fixture
def program() -> None:
    try:
        find_program()
    except HeadraceError as missing:
        pytest.skip(str(missing))


@pytest.mark.usefixtures("program")
def test_a_small_table_is_measured() -> None:
    command = "fib --kind exact --entries 1k 5000 --runs 2 --seconds 0.005 --no-peer --json"
    done = CliRunner().invoke(app, command.split(), catch_exceptions=False)
    rows = valid("bench fib", done.stdout)
    assert [row["entries"] for row in rows] == [1000, 5000]
    for row in rows:
        assert row["table"] == "cuckoo"
        assert row["checked"] == row["entries"]
        assert row["check_wrong"] == 0
        assert row["hits_mlps"] > 0
        assert row["hits_mlps_spread"][0] <= row["hits_mlps"] <= row["hits_mlps_spread"][1]
        assert (row["updates_per_s"] is not None) == (len(os.sched_getaffinity(0)) > 1)


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kind", "lpm", "--key", "mac"], r'--key: "mac", lpm takes ipv4 or ipv6'),
        (["--runs", "0"], r'--runs: "0", must be 1\.\.51'),
        (["--kind", "lpm", "--routes", "/nonexistent"], r"/nonexistent: cannot open"),
        (["--numa-node", "1023", "--no-peer"], r"--entries: no NUMA node 1023"),
    ],
)
def test_bad_input_is_one_message(arguments: list[str], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        run_bench(arguments, print, wait_s=60)


@pytest.mark.usefixtures("program")
def test_it_waits_for_a_run_that_holds_lcores() -> None:
    cpu = min(os.sched_getaffinity(0))
    refused = pytest.raises(HeadraceError, match=f"lcore {cpu}: held")
    with HeldLcores([cpu], lambda cpu: None), refused:
        run_bench(["--entries", "1000"], print, wait_s=0.1)
