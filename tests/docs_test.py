# SPDX-License-Identifier: Apache-2.0
"""The documentation keeps up: every key of a spec is described, every link leads somewhere."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel

from headrace.doctor.kubernetes import RIGHTS
from headrace.measure.estimate import measuring_s
from headrace.spec import document
from headrace.spec.deployment import Deployment, Execution, Lcores, Ring
from headrace.spec.measure import GoalParameters, Measure
from headrace.spec.study import Study, expand
from headrace.spec.workload import Flows, Headers, Packets
from support.cluster import documented_rights

pytestmark = pytest.mark.parallel

REPO = Path(__file__).resolve().parents[1]
PAGES = sorted([REPO / "README.md", *(REPO / "docs").rglob("*.md")])


@pytest.mark.parametrize(
    "model",
    [Study, Deployment, Execution, Lcores, Ring, Packets, Flows, Headers, Measure, GoalParameters],
)
def test_every_key_of_a_spec_is_described(model: type[BaseModel]) -> None:
    text = (REPO / "docs/spec.md").read_text()
    missing = [name for name in model.model_fields if not re.search(rf"\b{name}\b", text)]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPO)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), f"{page.name}: {target}"
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file.read_text()), f"{page.name}: {target}"


def test_papers_and_functions_are_named() -> None:
    """S1 to S5 are docs/design's and the studies' names for papers (a study's claims begin so), NF
    is the code's word for a function."""
    code = [p for top in ("lab", "engine", "trace") for p in (REPO / top).rglob("*.[chp]*")]
    short = re.compile(r"\bS[1-5]\b(?![.\w-])|\bS[1-5]\.(?![a-z])")
    codes = []
    for page in [*PAGES, *(p for p in code if p.suffix in (".py", ".c", ".h"))]:
        if page.is_relative_to(REPO / "docs/design"):
            continue
        words = short.findall(page.read_text())
        if page in PAGES and page.name != "contributing.md" and "reference" not in page.parts:
            words += re.findall(r"\bNFs?\b", page.read_text())
        codes += [f"{page.relative_to(REPO)}: {word}" for word in words]
    assert codes == []


def test_tests_that_measuring_names_are_there() -> None:
    """A row may go on with the file of the row before: `the same, -k WORD`."""
    lacking, file = [], REPO
    for command in re.findall(r"`([^`]+)`", (REPO / "docs/measuring.md").read_text("utf-8")):
        if path := re.search(r"(?:tests|lab)/\S+\.py", command):
            file = REPO / path[0]
        if not file.exists():
            lacking.append(command)
        elif word := re.search(r"-k \"?(\w+)", command):
            tests = re.findall(r"^def (test_\w+)", file.read_text("utf-8"), re.MULTILINE)
            if not any(word[1] in name for name in tests):
                lacking.append(f"{command}: not in {file.name}")
    assert file != REPO and lacking == []


def test_the_reference_is_what_engine_and_lab_say() -> None:
    script = REPO / "scripts" / "reference.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_the_site_is_built_and_its_links_are_right(tmp_path: Path) -> None:
    """Strictly: a page that no menu names, a link or an anchor that leads nowhere ends it."""
    pytest.importorskip("material", reason="needs mkdocs-material: make docs installs it")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path],
        cwd=REPO, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    index = (tmp_path / "search" / "search_index.json").read_text()
    assert "Spec reference" in index
    outside = [
        page.name
        for page in tmp_path.rglob("*.html")
        if re.search(r'<(script|link)[^>]*(src|href)="https?://(?!squidfunk)', page.read_text())
    ]
    assert outside == []


def anchors(text: str) -> set[str]:
    """As GitHub makes them from headings."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def test_the_readmes_first_experiment_is_right_and_short() -> None:
    """A newcomer waits for it: a minute or so, by the same estimate that `run --check` prints."""
    [text] = re.findall(r"```yaml\n(name: mine\n.*?)```", (REPO / "README.md").read_text(), re.S)
    experiments = list(expand(document.parse(text, REPO / "mine.yaml")))
    seconds = sum(measuring_s(e.study.measure) + e.study.warmup + 2 for e in experiments)
    assert len(experiments) > 1  # there is something to compare
    assert seconds < 90


@pytest.mark.parametrize("script", ["claims_page.py", "gallery.py"])
def test_what_is_made_of_kept_tables_is_up_to_date(script: str) -> None:
    command = [sys.executable, f"scripts/{script}", "--check"]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def claims_page() -> ModuleType:
    spec = importlib.util.spec_from_file_location("claims_page", REPO / "scripts/claims_page.py")
    assert spec is not None and spec.loader is not None
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    return page


def test_a_contradicted_claim_needs_a_paragraph() -> None:
    """`capacity` is confirmed, so that its study has no paragraph for it; `l3-parallel` has one."""
    page = claims_page()

    def kept(server: str) -> dict[str, Any]:
        row = {"verdict": "contradicted", "on": server}
        return {"s1": {"predicted": {"capacity": row, "l3-parallel": row}}}

    assert page.unexplained(kept("xeon-e5-2650")) == ["s1: capacity"]
    assert page.unexplained(kept("mine")) == []  # of another server nobody claimed anything
    claim = page.claims_of("s1")["l3-parallel"]
    page.claims_of("s1")["l3-parallel"] = claim.model_copy(update={"differs": "They differ."})
    assert page.unexplained(kept("xeon-e5-2650")) == ["s1: capacity", "s1: l3-parallel"]


def test_claims_of_a_study_that_cannot_be_predicted_are_answered(tmp_path: Path) -> None:
    page = claims_page()
    assert page.unpredicted("s3") == {}
    why = page.unpredicted("s4")
    assert sum("cannot predict: deployment.hosting: appliances" in one for one in why.values()) > 10
    page.KEPT = tmp_path / "claims.json"
    page.KEPT.write_text("{}")
    page.keep_unpredicted("s4", why)
    rows = json.loads(page.KEPT.read_text())["s4"]["predicted"]
    assert rows.keys() == page.claims_of("s4").keys()
    assert {row["verdict"] for row in rows.values()} == {"not-comparable"}
    assert "collect.trace" in rows["tracer-tcp-all"]["why"]
    assert "headrace takes none" in rows["bash-lines"]["why"]


def test_a_measured_number_needs_a_tolerance() -> None:
    """Nothing but this very number would confirm it; 0 and counts of VNFs are right or wrong."""
    page = claims_page()
    assert page.never_confirmed() == []
    claims = page.claims_of("s3")
    claims["lb-entries"] = claims["lb-entries"].model_copy(update={"tolerance": 0.0})
    assert page.never_confirmed() == ["s3: lb-entries"]


def test_the_role_of_a_cluster_is_what_doctor_asks_about() -> None:
    every = {(group, resource, verb) for group, resource, verbs in RIGHTS for verb in verbs}
    assert documented_rights() == every
