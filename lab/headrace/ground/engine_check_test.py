# SPDX-License-Identifier: Apache-2.0
"""Which plans the engine is asked about, and which it has accepted already."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.engine.describe import Description
from headrace.engine.plan_document import Plan
from headrace.ground.engine_check import Accepted, PlanCheck
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
