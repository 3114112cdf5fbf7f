# SPDX-License-Identifier: Apache-2.0
"""`measure.convergence`: a few routes of what studies/offload-convergence.yaml has thousands of."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.analyse.convergence import converged
from headrace.analyse.diff import diff
from headrace.record.bundle import Bundle
from headrace.record.select import rows_of
from support.lab import headrace, runtime_dir, state_left
from support.netns import netns_refusal
from support.routers import daemons_missing

pytestmark = pytest.mark.beside

ROUTES = 500
PER_S = "select change.per_s from results where goal = 'convergence announce'"


@pytest.mark.needs_root
@pytest.mark.parametrize("daemon", ["bird", pytest.param("frr", marks=pytest.mark.slow)])
def test_all_routes_change(engine_binary: Path, tmp_path: Path, daemon: str) -> None:
    """Announced, by another next hop, by the first again, withdrawn: the engine follows each."""
    if refusal := netns_refusal() or daemons_missing():
        pytest.skip(refusal)
    (tmp_path / "spec.yaml").write_text(
        f"name: t{tmp_path.name[-8:]}\nmeasure: {{convergence: {{routes: {ROUTES}, rounds: 1}}}}\n"
        "deployment:\n  hugepages: false\n  memory_mb: 256\n"
        f"  hosting: {{kind: offload, vnfs: 1, daemon: {daemon}}}\n"
    )
    runtime_dir(tmp_path).chmod(0o711)  # FRR's own user has its folders below
    done = headrace(
        "run", "spec.yaml", "--out", "b", folder=tmp_path, engine=engine_binary, timeout=300
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert "Changes of 500 routes" in done.stdout
    bundle = Bundle(tmp_path / "b")
    rows = converged([one.change for one in bundle.results() if one.change is not None])
    assert [(row.event, row.changes) for row in rows] == [
        ("announce", 1), ("replace", 2), ("withdraw", 1),
    ]  # fmt: skip
    for row in rows:
        assert row.daemon == daemon and row.routes == ROUTES
        assert 0 < row.per_s_min <= row.per_s <= row.per_s_max
        assert 0 < row.reaction_s <= row.seconds
        assert set(row.busy) == {
            *({"zebra", "bgpd"} if daemon == "frr" else {daemon}),
            "speaker",
        }
    with rows_of(bundle.path) as ask:
        [(per_s,)] = ask(PER_S, despite=())  # as a claim asks
    assert per_s == rows[0].per_s
    replayed = headrace(
        "run", "b", "--out", "c", folder=tmp_path, engine=engine_binary, timeout=300
    )
    assert replayed.returncode == 0, replayed.stderr
    same = diff(bundle, bundle)
    assert [(one.key.goal, one.changes[0].metric, one.changes[0].a) for one in same.compared] == [
        (f"convergence {row.event}", "change per_s", row.per_s) for row in rows
    ]
    assert state_left(tmp_path) == []


@pytest.mark.parallel
@pytest.mark.parametrize(
    ("convergence", "words"),
    [
        ("routes: 1", ("convergence.routes", "1")),
        ("prefixes: none.txt", ("convergence.prefixes", "none.txt")),
        ("prefixes: wrong.txt, routes: 100", ("wrong.txt:2", "10.0.0.1/8")),
        ("prefixes: short.txt, routes: 100", ("convergence.routes", "short.txt has 2 IPv4")),
        ("round: 3", ("round",)),
    ],
)
def test_bad_specs(
    tmp_path: Path, engine_binary: Path, convergence: str, words: tuple[str, ...]
) -> None:
    (tmp_path / "spec.yaml").write_text(
        "name: t\ndeployment: {hosting: {kind: offload, vnfs: 1, daemon: bird}}\n"
        f"measure: {{convergence: {{{convergence}}}}}\n"
    )
    (tmp_path / "wrong.txt").write_text("10.0.0.0/8\n10.0.0.1/8\n")
    (tmp_path / "short.txt").write_text("10.0.0.0/8\n2001:db8::/32\n\n10.0.0.0/8\n10.1.0.0/16\n")
    done = headrace("run", "spec.yaml", "--check", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 2, done.stdout
    [line] = done.stderr.strip().splitlines()
    assert all(word in line for word in words), line


@pytest.mark.parallel
def test_check_counts_the_routes(tmp_path: Path, engine_binary: Path) -> None:
    lines = "".join(f"10.{i}.0.0/16\n" for i in range(200))
    (tmp_path / "table.txt").write_text(lines)
    (tmp_path / "spec.yaml").write_text(
        "name: t\ndeployment: {hosting: {kind: offload, vnfs: 1, daemon: bird}}\n"
        "measure: {convergence: {prefixes: table.txt, routes: 150}}\n"
    )
    done = headrace("run", "spec.yaml", "--check", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 0, done.stderr
    assert "t, offload bird, 150 routes" in done.stdout
