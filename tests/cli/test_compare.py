# SPDX-License-Identifier: Apache-2.0
"""Two specs in one session: each with its own files and engine, and a bundle that is replayed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from headrace.cli._testdata import valid
from headrace.record.bundle import Bundle
from support.lab import headrace

pytestmark = pytest.mark.beside

SPEC = """\
name: {name}
chain: [{{acl: {{rules_file: my.rules, default: deny}}}}, {{delay: {{cycles: {cycles}}}}}]
measure: {{max: true, trial: 0.2}}
warmup: 0.1
"""
ALL = "@0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0x11/0xFF 0x0000/0x0000\n"
HALF = "@0.0.0.0/0 0.0.0.0/0 1024 : 1535 0 : 65535 0x11/0xFF 0x0000/0x0000\n"


def write(folder: Path, rules: str, cycles: int) -> Path:
    folder.mkdir()
    (folder / "my.rules").write_text(rules.replace(" ", "\t", 1))
    (folder / "x.yaml").write_text(SPEC.format(name=folder.name, cycles=cycles))
    return folder / "x.yaml"


def test_two_specs_with_files_of_one_name(tmp_path: Path, engine_binary: Path) -> None:
    """Half of b's packets are denied, and the others cost four times as much: it carries less."""
    a, b = write(tmp_path / "a", ALL, 1000), write(tmp_path / "b", HALF, 4000)
    other = tmp_path / "headrace-engine"
    shutil.copy(engine_binary, other)
    done = headrace(
        "compare", a, b, "--engine-b", other, "--out", tmp_path / "bundle", "--repetitions", "2",
        "--json", "--fail-if", "worse: 3%", "--junit", tmp_path / "junit.xml",
        folder=tmp_path, engine=engine_binary,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    output = valid("compare", done.stdout)
    [one] = output["results"]
    assert one["paired"]["ratio"]["value"] < 0.7  # 1000 / 4000 for each packet that passes
    bundle = Bundle(tmp_path / "bundle")
    order = [(r.chain, r.repetition) for r in bundle.results()]
    assert order == [("a-1", 1), ("b-1", 1), ("a-1", 2), ("b-1", 2)]
    denied = {r.chain: sum(n for where, n in r.drops.items() if "denied" in where)
              for r in bundle.results()}  # fmt: skip
    assert denied["a-1"] == 0 and denied["b-1"] > 0
    engines = [e["study"]["deployment"]["engine"] for e in bundle.spec_resolved["experiments"]]
    assert engines == [["headrace"], [str(other)]]
    assert len(ElementTree.parse(tmp_path / "junit.xml").getroot()[0]) == 1
    shutil.rmtree(tmp_path / "a")
    check = "run", "--check", "--json", tmp_path / "bundle"
    refused = headrace(*check, folder=tmp_path, engine=engine_binary)
    assert refused.returncode == 2
    assert f"got '{other}'; would be run as this bundle's spec says" in refused.stderr
    replay = headrace(*check, "--trust", folder=tmp_path, engine=engine_binary)
    assert f"the spec has {other} run" in replay.stderr
    assert json.loads(replay.stdout)["runs"] == [str(engine_binary), str(other)]
    assert [e["chain"] for e in json.loads(replay.stdout)["experiments"]] == ["a-1", "b-1"]
