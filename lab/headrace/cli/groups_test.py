# SPDX-License-Identifier: Apache-2.0
"""A study of which no point can be had: whether that is the spec's fault."""

from __future__ import annotations

from pathlib import Path

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
