# SPDX-License-Identifier: Apache-2.0
"""headrace diff: what changed between two runs, in results, specification and environment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.analyse.diff import diff as compare_bundles
from headrace.analyse.gate import GatedDiff, judge_diff
from headrace.cli._console import print_json, stdout
from headrace.cli._gate import FailIf, JunitFile, conditions_of, tell
from headrace.record.bundle import Bundle
from headrace.report.difference import document
from headrace.report.terminal import show


def diff(
    a: Annotated[Path, typer.Argument(help="The bundle to compare with.")],
    b: Annotated[Path, typer.Argument(help="The bundle to compare.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    fail_if: FailIf = None,
    junit: JunitFile = None,
) -> None:
    """Compare two runs: results against their spread, and what surrounded them."""
    conditions = conditions_of(fail_if, junit)
    left, right = Bundle(a), Bundle(b)
    for one in (left, right):
        one.check_whole()
        one.check_results()
    compared = compare_bundles(left, right)
    judged = judge_diff(compared, conditions)
    if as_json:
        print_json(GatedDiff(**dict(compared), judged=judged))
    else:
        show(document(compared, str(a), str(b)), stdout())
    tell(judged, f"headrace diff {a} {b}", junit)
