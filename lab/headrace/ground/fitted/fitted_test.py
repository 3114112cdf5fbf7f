# SPDX-License-Identifier: Apache-2.0
"""A table that the model itself made: what it was made with is found again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.analyse.fitted import fitted_results, model_errors
from headrace.errors import BadInput
from headrace.ground.choose import Grounds
from headrace.ground.contract import Checked
from headrace.ground.fitted.ground import FittedPoint
from headrace.ground.fitted.poller import polled
from headrace.measure.results import result
from headrace.measure.trial import trial
from headrace.model.vswitch import SwitchCosts, SwitchedChains, switched_mpps
from headrace.record.rows import Result
from headrace.spec import document

MADE = SwitchCosts(0.05, 0.12, 0.6, 0.01, 0.27, 0.01, 1.3)
HEAD = "host,topology,chains,nfs_per_chain,run,frame,ndr_pps,loss_percent\n"
SERVER = """
name: one
sources: {x: {kind: assumed, text: a test}}
clock_mhz: [1000, x]
cores_per_socket: 2
levels:
  - {name: L1, kib: [32, x], cycles: [4, x], gather_cycles: [1, x]}
  - {name: memory, cycles: [250, x], gather_cycles: [20, x]}
"""
STUDY = """
name: made
ground:
  fitted:
    server: one.yaml
    table: made.csv
    model: vswitch
    unknowns:
      port: {{value: 0.1}}
      crossing: {{value: 0.1}}
      in_share: {{value: 0.6, spread: 0.01, why: it is}}
      mixed: {{value: {mixed}}}
      copy_kib: {{value: 0.27, spread: 0.01, why: it is}}
      crowd: {{value: 0.01, spread: 0.001, why: it is}}
      vhost: {{value: 1.3, spread: 0.01, why: it is}}
    points:
"""


def checked(
    tmp_path: Path,
    points: int,
    mixed: str = "0.01, spread: 0.001, why: it is",
    more: str = "",
    last: str = "2t1c,csc,8,2,1,64,7000,0.0",
) -> Checked:
    setups = [("2t1c", c, n) for c in (1, 2, 4) for n in (1, 2, 4)]
    lines = []
    for host, chains, vnfs in setups:
        rate = switched_mpps(MADE, SwitchedChains(1, chains, vnfs, 64)) * 1e6
        lines.append(f"{host},csc,{chains},{vnfs},1,64,{rate:.0f},0.0")
    lines += ["2t1c,csc,8,1,1,64,5000000,-8.8", last]
    (tmp_path / "made.csv").write_text(HEAD + "\n".join(lines) + "\n")
    text = STUDY.format(mixed=mixed) + "".join(
        f"      - {{chains: {c}, nfs_per_chain: {n}}}\n" for _, c, n in setups[:points]
    )
    (tmp_path / "one.yaml").write_text(SERVER)
    (tmp_path / "made.yaml").write_text(text + more)
    return again(tmp_path)


def again(tmp_path: Path) -> Checked:
    return Grounds().check(document.load(tmp_path / "made.yaml"))


def measured(checked: Checked) -> list[Result]:
    rows = []
    for number, point in enumerate(checked.points):
        assert isinstance(point, FittedPoint)
        with point.deploy(None) as deployed:  # type: ignore[arg-type] # nothing is deployed
            seen = trial(
                deployed, point, point.offers[0], 0, 2.0, phase="max", repetition=1, number=number
            )
        rows.append(result(seen[0], "max"))
    return rows


def test_what_made_the_table_is_found_and_the_rest_predicted(tmp_path: Path) -> None:
    whole = checked(tmp_path, 6)
    unknowns = whole.points[0].resolved().model_dump()["unknowns"]
    assert unknowns["port"] == pytest.approx(0.05, rel=0.03)
    assert unknowns["crossing"] == pytest.approx(0.12, rel=0.03)
    rows = measured(whole)
    # What it was fitted on is no prediction.
    assert [one.ground for one in rows] == ["fitted"] * 6 + ["predicted"] * 3
    [errors] = model_errors(fitted_results(rows))
    assert errors.figure == "ndr" and errors.most < 0.01
    for one in rows:
        assert one.predicted is not None and one.audit.trusted
        [figure] = one.predicted.figures
        assert one.throughput_pps == pytest.approx(figure.modelled * 1e6, rel=1e-6)


def test_rows_that_an_audit_rejects_are_left_out_with_the_reason(tmp_path: Path) -> None:
    whole = checked(tmp_path, 6)
    rejected = whole.points[0].resolved().model_dump()["rejected"]
    assert list(rejected) == ["chains 8, nfs_per_chain 1", "chains 8, nfs_per_chain 2"]
    assert "8.8 % more arrived than were sent" in rejected["chains 8, nfs_per_chain 1"]
    assert "no load that passed" in rejected["chains 8, nfs_per_chain 2"]
    assert any("8.8 % more arrived" in note for note in whole.notes)
    assert len(whole.points) == 9


def test_a_free_unknown_costs_three_points(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="2 are free, and the points have 5 figures; allowed: 1"):
        checked(tmp_path, 5)
    with pytest.raises(BadInput, match="3 are free, and the points have 6 figures; allowed: 2"):
        checked(tmp_path, 6, mixed="0.01")


def test_what_is_replayed_is_copied(tmp_path: Path) -> None:
    """The table, and a server that is no one of headrace's own."""
    inputs = checked(tmp_path, 6).inputs
    assert {name: file.name for name, file in inputs.items()} == {
        "made.csv": "made.csv", "one.yaml": "one.yaml"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("chain: [l2fwd]\n", "chain: not of a published table; allowed with it: name, "),
        ("measure: {max: true}\n", "measure: not of a published table"),
        ("sweep: {warmup: [1]}\n", "sweep: not of a published table"),
    ],
)
def test_others_chose_what_was_measured(tmp_path: Path, more: str, told: str) -> None:
    with pytest.raises(BadInput) as raised:
        checked(tmp_path, 6, more=more)
    assert told in str(raised.value)


def test_delays_lie_in_order_between_their_ends() -> None:
    """Below what the core can: no packet is faster than the base, none waits longer than a pause
    and the queue behind it."""
    known = {
        "saturation_mpps": 6.0, "mpps_per_x": 0.006, "frame_bytes": 1062.0, "tester_ring": 1024.0,
        "ring": 1024.0, "line_gbps": 100.0,
    }  # fmt: skip
    values = {"base": 15.0, "pause_us": 100.0, "pause_per_ms": 0.1, "burst": 32.0}
    delays = polled(500, values, known)
    told = delays.latency()
    assert delays.offered_mpps == pytest.approx(3.0)
    order = [told.min, told.p50, told.p90, told.p99, told.p999, told.max]
    assert order == sorted(order)
    assert told.min >= 15e3 and told.max <= 15e3 + 100e3 + delays.waits[-1]
    # Its mean is what its quantiles come to.
    shares = [(i + 0.5) / 400 for i in range(400)]
    assert told.mean == pytest.approx(sum(map(delays.at, shares)) / 400, rel=0.05)


def test_a_strangers_table_is_one_line(tmp_path: Path) -> None:
    """Other rows than the model reads, and what has no end."""
    file = tmp_path / "made.csv"
    with pytest.raises(BadInput, match=r"model vswitch cannot read a row of it, for [^\n]*$"):
        checked(tmp_path, 4, more="    rows: {run: [2]}\n", last="2t1c,csc,8,1,2")
    for text in (b"metric\n1\n", b"a,b\n\xff\n", b"a\n" + b"x" * 200_000 + b"\n"):
        file.write_bytes(text)
        with pytest.raises(BadInput, match=r"model vswitch cannot read a row of it, for [^\n]*$"):
            again(tmp_path)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(BadInput, match="is no regular file"):
        again(tmp_path)
    file.unlink()
    with file.open("wb") as sparse:
        sparse.truncate(1 << 40)
    with pytest.raises(BadInput, match=f"has {1 << 40} bytes; allowed"):
        again(tmp_path)
