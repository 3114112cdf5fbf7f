# SPDX-License-Identifier: Apache-2.0
"""Which plans the engine is asked about, and which it has accepted already."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.doctor.engine_build import checks
from headrace.engine.describe import Description, OtherEngine
from headrace.engine.plan_document import Plan
from headrace.errors import BadInput
from headrace.ground.engine_check import Accepted, PlanCheck, check_age
from headrace.spec import document
from headrace.spec.study import Experiment, expand

SPEC = "name: a\nchain: [l2fwd]\nworkload: {frame: 64, flows: 2}\n"


def plan(addresses: Path, frame: int = 64) -> Plan:
    source = {"type": "source", "params": {"frame": frame, "dst_ips_file": str(addresses)}}
    return Plan.model_validate({
        "engine": {}, "links": {"from": source, "to": {"type": "sink"}},
        "nfs": {"l2fwd": {"type": "l2fwd"}},
        "segments": [{"name": "s", "cpus": [0], "inputs": [{"link": "from", "to": "l2fwd"}]}],
    })  # fmt: skip


def asked_about(monkeypatch: pytest.MonkeyPatch, places: dict[str, str], *plans: Plan) -> int:
    """How often an engine was; each plan's check is of a point of its own."""
    asked: list[str] = []

    def ask(_: PlanCheck, text: str, experiment: Experiment, *more: str) -> None:
        asked.append(text)

    def known_as(text: str) -> str:
        for place, content in places.items():
            text = text.replace(place, content)
        return text

    monkeypatch.setattr(PlanCheck, "_ask", ask)
    doc = document.parse(SPEC, Path("spec.yaml"))
    [experiment] = expand(doc)
    description, accepted = Description(Path("engine"), {}), Accepted()
    for one in plans:
        PlanCheck(doc, description, accepted, known_as).check(one, experiment)
    return len(asked)


def test_a_plan_is_known_whatever_the_file_of_its_check_is_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once by itself, and once with its files."""
    plans = plan(Path("/tmp/one/addresses")), plan(Path("/tmp/two/addresses"))
    assert asked_about(monkeypatch, {}, *plans) == 4
    alike = {"/tmp/one/addresses": "2c26", "/tmp/two/addresses": "2c26"}
    assert asked_about(monkeypatch, alike, *plans) == 2
    other = {"/tmp/one/addresses": "2c26", "/tmp/two/addresses": "fcde"}
    assert asked_about(monkeypatch, other, *plans) == 4


DESCRIBED = '{"nfs": {"l2fwd": {"params": {}}}, "links": {"source": {"params": {}}}}'
OLDER = 'links.sink-forward.params: unknown key "sources"; allowed: missing_mb'


def engine_that_refuses(folder: Path, words: str) -> Path:
    """With these words each plan."""
    program = folder / "headrace-engine"
    program.write_text(
        f"""#!/bin/sh
case "$1" in
--version) echo "headrace-engine 0.0.1" ;;
--describe) echo '{DESCRIBED}' ;;
*) echo 'headrace-engine: {words}' >&2; exit 2 ;;
esac
"""
    )
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("words", "age"),
    [(OLDER, "older"), ("version: this engine reads version 2", "older or newer")],
)
def test_an_engine_of_other_sources_is_no_mistake_of_the_users(
    tmp_path: Path, words: str, age: str
) -> None:
    engine = engine_that_refuses(tmp_path, words)
    with pytest.raises(OtherEngine, match=rf"^engine {engine} is {age} than this lab .*make setup"):
        check_age(engine)
    [first, *_] = checks(engine, "make setup")
    assert (first.status, first.mend) == ("missing", "make setup")
    assert f"is {age} than this lab" in first.found


def test_a_functions_key_is_the_users(tmp_path: Path) -> None:
    engine = engine_that_refuses(tmp_path, 'nfs.l2fwd.params: unknown key "x"; allowed: none')
    with pytest.raises(BadInput, match=r"^age.yaml:2: chain\[0\].*unknown key"):
        check_age(engine)
