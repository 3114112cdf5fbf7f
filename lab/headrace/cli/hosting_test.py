# SPDX-License-Identifier: Apache-2.0
"""What `headrace run --list` prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.run import run

_POINTS = Path(__file__).parents[3] / "studies/s1"


def test_a_point_is_listed_as_a_spec_has_it(capsys: pytest.CaptureFixture[str]) -> None:
    run(_POINTS, show=True)
    lines = capsys.readouterr().out.splitlines()
    (switched,) = [line for line in lines if "bare-metal-l2-1 " in line]
    (routed,) = [line for line in lines if "bare-metal-l3-1:" in line]
    assert "bare-metal-l2-1  [can be measured here]" in switched
    assert "chain=[{l3fwd: {fib: exact, " in " ".join(routed.split())
    assert not any("{'" in line or line == "..." for line in lines)


def test_a_figure_that_shares_its_points_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    run(_POINTS, figure=3, show=True)
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith("Figures 2-7 of the paper have these points between them")
    run(_POINTS, figure=8, show=True)
    assert "between them" not in capsys.readouterr().out
