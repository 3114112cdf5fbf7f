# SPDX-License-Identifier: Apache-2.0
"""The gallery's pictures are those of kept rows: ten, each with all of its points and a command
that this checkout knows."""

from __future__ import annotations

import functools
import importlib.util
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest

from headrace.host.programs import shipped
from headrace.spec.folder import load_folder
from headrace.spec.group import Machine
from headrace.spec.points import Wanted, points

pytestmark = pytest.mark.parallel

REPO = Path(__file__).resolve().parents[1]


loaded = functools.cache(load_folder)


@pytest.fixture(scope="module")
def gallery() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gallery", REPO / "scripts/gallery.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gallery"] = module
    spec.loader.exec_module(module)
    return module


def test_there_are_ten_pictures_with_their_rows(gallery: ModuleType) -> None:
    kept = {
        "waiting": {"predicted": [["poll", 1.0, 5.0], ["poll", 4.0, 7.0], ["adaptive", 1.0, 6.0]]}
    }
    pictures = gallery.pictures()
    assert len(pictures) == 10
    svg = gallery.drawn(pictures["waiting"], kept["waiting"])
    assert svg.count("<circle") == 3 and svg.count('class="curve') == 2
    assert "poll, 4: 7" in re.sub(r"\s+", " ", svg)
    assert list(gallery.files(kept)) == [gallery.FOLDER / "waiting.svg", gallery.PAGE]


def test_each_command_has_points(gallery: ModuleType) -> None:
    """Predictions have some that are not measured only."""
    for name, picture in gallery.pictures().items():
        for command in picture.command.split("; "):
            _, run, study, *options = shlex.split(command)
            folder = shipped("studies") / study.partition("/")[0]
            given = dict(zip(options[::2], options[1::2], strict=False))
            figure = int(given["--figure"]) if "--figure" in given else None
            wanted = Wanted(given.get("--group"), figure)
            server = given.get("--on")
            assert server is None or (shipped("servers") / f"{server}.yaml").is_file()
            machine = Machine(64, 2, not_deployed=server and f"{server} is described")
            assert run == "run", name
            assert any(one.skipped is None for one in points(loaded(folder), machine, wanted)), name
