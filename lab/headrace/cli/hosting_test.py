# SPDX-License-Identifier: Apache-2.0
"""What `headrace hosting study --list` prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.hosting import study

_POINTS = Path(__file__).parents[3] / "studies/s1-hosting/points.yaml"


def test_a_point_is_listed_as_a_spec_has_it(capsys: pytest.CaptureFixture[str]) -> None:
    study(_POINTS, group=None, figure=None, only=None, out=None, show=True, check=False)
    lines = capsys.readouterr().out.splitlines()
    (switched,) = [line for line in lines if "bare-metal-l2-1:" in line]
    (routed,) = [line for line in lines if "bare-metal-l3-1:" in line]
    assert "bare-metal-l2-1:   [can be measured here]" in switched
    assert "chain=[{l3fwd: {fib: exact, " in " ".join(routed.split())
    assert not any("{'" in line or line == "..." for line in lines)


def test_a_figure_that_shares_its_points_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    study(_POINTS, group=None, figure=3, only=None, out=None, show=True, check=False)
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("Figures 2-7 of the paper have these points between them")
    study(_POINTS, group=None, figure=8, only=None, out=None, show=True, check=False)
    assert "between them" not in capsys.readouterr().out
