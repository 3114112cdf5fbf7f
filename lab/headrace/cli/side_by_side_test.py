# SPDX-License-Identifier: Apache-2.0
"""`headrace report A B`: bundles of one study, side by side."""

from __future__ import annotations

import json
from pathlib import Path

import typer
from typer.testing import CliRunner

from headrace.cli._schema import OUTPUTS
from headrace.cli.report import report
from headrace.errors import EXIT_CONTRADICTED
from headrace.report.side_by_side_test import ground

app = typer.Typer()
app.command()(report)


def test_the_command_writes_one_page_of_several(tmp_path: Path) -> None:
    both = [ground(tmp_path, "measured", [1.0, 6.1]), ground(tmp_path, "predicted", [2.0, 8.0])]
    page, folders = tmp_path / "page.html", [str(one.path) for one in both]
    done = CliRunner().invoke(app, [*folders, "--html", str(page), "--json", "--claims"])
    assert done.exit_code == EXIT_CONTRADICTED
    told = json.loads(done.stdout)
    OUTPUTS["report A B"].model_validate(told)
    assert [one["ground"] for one in told["grounds"]] == ["measured", "predicted"]
    verdicts = [claim["verdict"] for one in told["grounds"] for claim in one["claims"]]
    assert verdicts == ["confirmed", "contradicted"]
    assert "Somebody 2020" in page.read_text() and "What differs, and why" in page.read_text()
    shown = CliRunner().invoke(app, folders)
    assert shown.exit_code == 0 and "Theirs is slower." in " ".join(shown.stdout.split())
