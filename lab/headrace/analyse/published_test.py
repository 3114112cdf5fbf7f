# SPDX-License-Identifier: Apache-2.0
"""A table that the model itself made: what it was made with is found again."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.analyse.published import fit_published
from headrace.errors import BadInput
from headrace.model.vswitch import SwitchCosts, SwitchedChains, switched_mpps
from headrace.record.published import FittedTable
from headrace.spec import document
from headrace.spec.fit import read_fit

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
FIT = """
name: made
about: a table of the model's own
source: this test
server: one.yaml
model: vswitch
data: made.csv
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


def table(
    tmp_path: Path, points: int, mixed: str = "0.01, spread: 0.001, why: it is"
) -> FittedTable:
    setups = [("2t1c", c, n) for c in (1, 2, 4) for n in (1, 2, 4)]
    lines = []
    for host, chains, vnfs in setups:
        rate = switched_mpps(MADE, SwitchedChains(1, chains, vnfs, 64)) * 1e6
        lines.append(f"{host},csc,{chains},{vnfs},1,64,{rate:.0f},0.0")
    lines += ["2t1c,csc,8,1,1,64,5000000,-8.8", "2t1c,csc,8,2,1,64,7000,0.0"]
    data = tmp_path / "made.csv"
    data.write_text(HEAD + "\n".join(lines) + "\n")
    text = FIT.format(mixed=mixed) + "".join(
        f"  - {{chains: {c}, nfs_per_chain: {n}}}\n" for _, c, n in setups[:points]
    )
    (tmp_path / "one.yaml").write_text(SERVER)
    file = tmp_path / "made.yaml"
    file.write_text(text)
    doc = document.load(file)
    return fit_published(doc, read_fit(doc), data)


def test_what_made_the_table_is_found_and_the_rest_predicted(tmp_path: Path) -> None:
    fit = table(tmp_path, 6)
    assert fit.unknowns["port"] == pytest.approx(0.05, rel=0.03)
    assert fit.unknowns["crossing"] == pytest.approx(0.12, rel=0.03)
    assert len(fit.predicted()) == 3  # what it was fitted on is no prediction
    assert fit.most_error() < 0.01


def test_rows_that_an_audit_rejects_are_left_out_with_the_reason(tmp_path: Path) -> None:
    reasons = [one.why for one in table(tmp_path, 6).rejected]
    assert "8.8 % more arrived than were sent" in reasons[0]
    assert "no load that passed" in reasons[1]
    assert len(reasons) == 2


def test_a_free_unknown_costs_three_points(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="2 are free, and the points have 5 figures; allowed: 1"):
        table(tmp_path, 5)
    with pytest.raises(BadInput, match="3 are free, and the points have 6 figures; allowed: 2"):
        table(tmp_path, 6, mixed="0.01")
