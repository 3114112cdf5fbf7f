# SPDX-License-Identifier: Apache-2.0
"""A study of which no point can be had: whether that is the spec's fault."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.cli import _groups
from headrace.errors import EXIT_BAD_INPUT, EXIT_FAILURE, BadInput, HeadraceError
from headrace.ground.contract import Checked
from headrace.spec import document
from headrace.spec.document import Document
from headrace.spec.group import Machine
from headrace.spec.points import Wanted

TWO = """\
name: two
chain: [l2fwd]
workload: {frame: 64}
groups:
  a: {about: both, sweep: {deployment.burst: [16, 32]}}
"""


@pytest.mark.parametrize(
    ("kinds", "status"),
    [
        ([HeadraceError, HeadraceError], EXIT_FAILURE),
        ([BadInput, BadInput], EXIT_BAD_INPUT),
        ([HeadraceError, BadInput], EXIT_BAD_INPUT),
    ],
)
def test_the_status_says_whose_fault_it_is(kinds: list[type[HeadraceError]], status: int) -> None:
    left = list(kinds)

    def check(_: Document) -> Checked:
        raise left.pop(0)("why")

    chosen = _groups.chosen(document.parse(TWO, Path("two.yaml")), Wanted(), Machine(2, 1))
    with pytest.raises(HeadraceError, match=r"two: a-1: why \(and 1 more point cannot") as caught:
        chosen.checked(check, all_right=False)
    assert caught.value.exit_status == status


def test_a_machine_that_can_have_no_point_is_no_mistake_of_the_spec() -> None:
    text = TWO.replace("{about: both", "{about: both, needs: [{lcores: 3}]")
    chosen = _groups.chosen(document.parse(text, Path("two.yaml")), Wanted(), Machine(2, 1))
    with pytest.raises(HeadraceError, match="measured here: needs 3 lcores") as caught:
        chosen.checked(lambda _: Checked([], {}, 0), all_right=False)
    assert caught.value.exit_status == EXIT_FAILURE


def test_points_without_groups_are_listed_by_the_numbers_that_point_takes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    points: Any = [
        SimpleNamespace(chain="edge", execution=name, offers=[SimpleNamespace(workload="64B")])
        for name in ("rtc", "pipeline")
    ]
    doc = document.parse("name: edge\nchain: [l2fwd]\n", Path("edge.yaml"))

    def listed(point: str | None) -> str:
        chosen = _groups.chosen(doc, Wanted(point=point), Machine(2, 1))
        _groups.tell(chosen, lambda _: Checked(points, {}, 0), False)
        return capsys.readouterr().out

    first, second = "1  edge, rtc, 64B", "2  edge, pipeline, 64B"
    can = "  [can be measured here]\n"
    assert listed(None) == f"{first}{can}{second}{can}"
    assert listed("2") == f"{second}{can}"
    with pytest.raises(BadInput, match="--point: got 3; allowed: 1 to 2"):
        listed("3")


def test_a_figure_that_a_group_is_not_in_is_refused() -> None:
    text = TWO.replace("{about: both", "{about: both, figures: ['7', '9']")
    doc = document.parse(text, Path("two.yaml"))
    assert len(_groups.chosen(doc, Wanted(group="a", figure=9), Machine(2, 1)).points) == 2
    with pytest.raises(BadInput, match=r"^--figure: got 8; allowed with --group a: 7, 9$"):
        _groups.chosen(
            document.parse(text + "  b: {about: other, figures: ['8']}\n", Path("two.yaml")),
            Wanted(group="a", figure=8),
            Machine(2, 1),
        )
