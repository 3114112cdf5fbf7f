# SPDX-License-Identifier: Apache-2.0
"""Studies that are computed: a published table with its claims, a described server; each replayed
from another folder, without the files that it was made from."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest

from headrace.cli._testdata import valid
from support.lab import headrace

pytestmark = pytest.mark.parallel
REPO = Path(__file__).resolve().parents[2]


def rates(bundle: Path) -> list[Any]:
    table = f"'{bundle}/results.parquet'"
    query = f"select execution, throughput_pps, latency_ns from {table} order by execution"
    return duckdb.sql(query).fetchall()


def replayed(folder: Path, engine: Path) -> Path:
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    done = headrace("run", "../b", "--out", "c", folder=elsewhere, engine=engine)
    assert done.returncode == 0, done.stderr
    return elsewhere / "c"


@pytest.mark.parametrize("way", ["in the spec", "--on"])
def test_a_described_server_of_ones_own_goes_along(
    engine_binary: Path, tmp_path: Path, way: str
) -> None:
    """With the server that its functions' costs are from."""
    servers = tmp_path / "mine"
    servers.mkdir()
    for name in ("packetmill", "reference"):
        shutil.copy(REPO / "servers" / f"{name}.yaml", servers)
    described = servers / "packetmill.yaml"
    text = described.read_text().replace("name: packetmill", "name: my-own")
    described.write_text(text + ("" if "costs:" in text else "costs: reference.yaml\n"))
    ground = f"ground: {{simulated: {{server: {described}}}}}\n" if way != "--on" else ""
    (tmp_path / "s.yaml").write_text(
        f"name: own-server\nchain: [l2fwd]\nmeasure: {{max: true}}\n{ground}"
    )
    on = ("--on", "mine/packetmill.yaml") if way == "--on" else ()
    done = headrace("run", "s.yaml", *on, "--out", "b", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 0, done.stderr
    rows = rates(tmp_path / "b")
    shutil.rmtree(servers)
    assert rates(replayed(tmp_path, engine_binary)) == rows


def as_measured(bundle: Path) -> None:
    """Says of a computed bundle's results that they were measured."""
    results, other = bundle / "results.parquet", bundle / "other.parquet"
    query = f"select * replace ('measured' as ground) from '{results}'"
    duckdb.sql(f"copy ({query}) to '{other}' (format parquet)")
    other.replace(results)


def test_a_server_is_described_by_runs_on_it(engine_binary: Path, tmp_path: Path) -> None:
    """The runs are computed for a server of another clock, so that one knows what must come out."""
    text = (REPO / "servers" / "reference.yaml").read_text()
    (tmp_path / "other.yaml").write_text(text.replace("[3960.0, profiles]", "[2000.0, profiles]"))
    (tmp_path / "s.yaml").write_text("name: two\nchain: [l2fwd]\nmeasure: {max: true}\n")

    def run(*command: str) -> str:
        done = headrace(*command, folder=tmp_path, engine=engine_binary)
        assert done.returncode == 0, done.stderr
        return done.stderr

    run("run", "s.yaml", "--on", "other.yaml", "--out", "b")
    describe = ("server", "describe", "mine", "--runs", "b", "--start", "reference")
    refused = headrace(*describe, folder=tmp_path, engine=engine_binary)
    assert refused.returncode != 0 and "no measured trials" in refused.stderr
    as_measured(tmp_path / "b")
    assert "1 trial, 4 parts" in run(*describe, "--out", "mine.yaml")
    run("run", "s.yaml", "--on", "mine.yaml", "--out", "c")
    ours, theirs = (rates(tmp_path / one)[0][1] for one in "cb")
    assert ours == pytest.approx(theirs, rel=0.03)
    alone = headrace("server", "describe", "mine", "--runs", "b", folder=tmp_path,
                     engine=engine_binary)  # fmt: skip
    assert "--runs and --start" in alone.stderr


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

    rows = rates(tmp_path / "b")
    assert len(rows) == 48
    assert rates(replayed(tmp_path, engine_binary)) == rows

    shown = headrace("report", "b", folder=tmp_path, engine=engine_binary)
    assert "40 figures predicted, and 8 fitted on" in shown.stdout
    assert "8.8 % more arrived than were sent" in shown.stdout


def test_a_table_is_fitted_on_the_rows_that_are_named(
    engine_binary: Path, shared_data: Path, tmp_path: Path
) -> None:
    """Three rows tell one of the clock model's two unknowns at the most; six tell both."""
    table = shared_data / "published" / "packetmill.csv"
    given = ("fit", "packetmill-clock", "--input", f"{table.name}={table}")

    def named(*clocks: int) -> list[str]:
        rows = (f"experiment=source_code_router,x={clock}" for clock in clocks)
        return [word for row in rows for word in ("--points", row)]

    few = headrace(*given, *named(1200, 1400, 1600), folder=tmp_path, engine=engine_binary)
    assert few.returncode == 2 and "2 are free, and the points have 3 figures" in few.stderr
    clocks = (1200, 1600, 2000, 2400, 2800, 3000)
    done = headrace(*given, *named(*clocks), "--out", "b", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 0, done.stderr
    query = f"select execution from '{tmp_path}/b/results.parquet' where ground = 'fitted'"
    on = sorted(duckdb.sql(query).fetchall())
    assert on == sorted((f"experiment source_code_router, x {clock}",) for clock in clocks)
    rows = rates(tmp_path / "b")
    assert rates(replayed(tmp_path, engine_binary)) == rows

    for words, problem in (
        (("--points", "x"), "--points: got 'x'; allowed: COLUMN=VALUE"),
        (("--points", "x=7"), "is 0 rows; allowed: one"),
    ):
        refused = headrace(*given, *words, folder=tmp_path, engine=engine_binary)
        assert refused.returncode == 2 and problem in refused.stderr, refused.stderr
    other = headrace("fit", "quickstart", folder=tmp_path, engine=engine_binary)
    assert other.returncode == 2 and "has no published table" in other.stderr


def test_a_prediction_reads_the_files_that_functions_name(
    engine_binary: Path, tmp_path: Path
) -> None:
    """What is wrong with them, or rarely meant, is said as where the same is measured."""
    chain = "[{acl: {rules_file: my.rules, default: deny}}]"
    spec = f"name: mine\nchain: {chain}\nworkload: {{flows: 4096}}\nmeasure: {{max: true}}\n"
    (tmp_path / "mine.yaml").write_text(spec)
    asked = ("run", "--check", "--json", "mine.yaml")
    grounds = asked, (*asked, "--on", "xeon-e5-2650")

    (tmp_path / "my.rules").write_text("garbage\n")
    refused = [headrace(*one, folder=tmp_path, engine=engine_binary) for one in grounds]
    assert [one.returncode for one in refused] == [2, 2]
    assert 'my.rules:1: filter "garbage"' in refused[0].stderr
    assert refused[1].stderr == refused[0].stderr

    (tmp_path / "my.rules").write_text("")
    told = [headrace(*one, folder=tmp_path, engine=engine_binary).stdout for one in grounds]
    notes = [json.loads(one)["experiments"][0]["notes"] for one in told]
    [here], [there] = ([n for n in some if "packets of the workload tried" in n] for some in notes)
    assert there == here
    assert "of 4096 packets" in here and "none comes through the chain" in here
