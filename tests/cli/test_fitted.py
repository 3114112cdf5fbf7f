# SPDX-License-Identifier: Apache-2.0
"""A published table as a study: run with its claims, and replayed from another folder."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from headrace.cli._testdata import valid
from support.lab import headrace

pytestmark = pytest.mark.parallel


def test_a_published_table_is_a_study(
    engine_binary: Path, shared_data: Path, tmp_path: Path
) -> None:
    table = shared_data / "published" / "cnf_testbed_ndr.csv"
    given = ("run", "cnf-testbed", "--input", f"{table.name}={table}", "--out", "b", "--claims")
    done = headrace(*given, "--json", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 0, done.stderr
    output = valid("run", done.stdout)
    assert [one["verdict"] for one in output["claims"]] == ["confirmed"] * 2
    assert [one["ground"] for one in output["results"]].count("fitted") == 8

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    again = headrace("run", "../b", "--out", "c", folder=elsewhere, engine=engine_binary)
    assert again.returncode == 0, again.stderr
    rates = "select execution, throughput_pps from '{}/results.parquet' order by execution"
    first, second = (
        duckdb.sql(rates.format(bundle)).fetchall() for bundle in (tmp_path / "b", elsewhere / "c")
    )
    assert first == second and len(first) == 48

    shown = headrace("report", "b", folder=tmp_path, engine=engine_binary)
    assert "40 figures predicted, and 8 fitted on" in shown.stdout
    assert "8.8 % more arrived than were sent" in shown.stdout
