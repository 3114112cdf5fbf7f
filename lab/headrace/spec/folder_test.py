# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import BadInput
from headrace.host.programs import shipped
from headrace.spec import document
from headrace.spec.folder import is_folder, load_folder
from headrace.spec.group import Machine
from headrace.spec.points import Wanted, points
from headrace.spec.study import read

ONE = """
name: figure-8
paper: somebody
measure: {{trial: 1}}
repetitions: {repetitions}
sweep: {{workload.frame: [64, 128]}}
quick: {{repetitions: 1}}
groups:
  {group}:
    about: x
    figures: ["{figure}"]
    spec: {{chain: [l2fwd], measure: {{max: true}}}}
"""


def filled(folder: Path, *files: tuple[str, int, str]) -> Path:
    for group, repetitions, figure in files:
        text = ONE.format(group=group, repetitions=repetitions, figure=figure)
        (folder / f"figure-{figure}.yaml").write_text(text)
    return folder


def test_files_stand_side_by_side_as_each_has_it(tmp_path: Path) -> None:
    doc = load_folder(filled(tmp_path, ("a", 3, "10"), ("b", 4, "8")))
    both = points(doc, Machine(2, 1))
    assert [one.name for one in both] == ["b-1", "b-2", "a-1", "a-2"]  # figure 8 first
    assert [read(one.doc).repetitions for one in both] == [4, 4, 3, 3]
    assert [one.name for one in points(doc, Machine(2, 1), Wanted(figure=10))] == ["a-1", "a-2"]
    quick = points(doc, Machine(2, 1), Wanted(quick=True))
    assert [read(one.doc).repetitions for one in quick] == [1, 1, 1, 1]
    again = document.parse(doc.text(), Path("spec.yaml"))  # as a bundle has it
    assert [one.doc.data for one in points(again, Machine(2, 1))] == [one.doc.data for one in both]


def test_names_differ_and_papers_do_not(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"figure-10.yaml:9: groups.a: another file"):
        load_folder(filled(tmp_path, ("a", 3, "8"), ("a", 3, "10")))
    other = (tmp_path / "figure-10.yaml").read_text().replace("somebody", "another")
    (tmp_path / "figure-10.yaml").write_text(other)
    with pytest.raises(BadInput, match=r"paper: .*the folder's others are of somebody"):
        load_folder(tmp_path)
    (tmp_path / "figure-10.yaml").write_text("name: x\nchain: [l2fwd]\n")
    with pytest.raises(BadInput, match=r"groups: .*allowed in a folder of studies"):
        load_folder(tmp_path)


def test_a_bundle_is_no_folder_of_studies(tmp_path: Path) -> None:
    assert not is_folder(tmp_path)
    filled(tmp_path, ("a", 3, "8"))
    assert is_folder(tmp_path)
    (tmp_path / "status.json").write_text("{}")
    assert not is_folder(tmp_path)


FOLDERS = [*sorted(shipped("studies").glob("s[1-5]")), shipped("studies") / "bmwg"]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_each_point_of_a_papers_folder_is_that_of_its_file(folder: Path) -> None:
    """Also by --quick: all of its points are studies, and there are fewer, or sooner ones."""
    large = Machine(64, 2)
    together = {one.name: read(one.doc) for one in points(load_folder(folder), large)
                if not one.skipped}  # fmt: skip
    alone = {
        one.name: read(one.doc)
        for file in folder.glob("*.yaml")
        for one in points(document.load(file), large)
        if not one.skipped
    }
    assert together == alone
    quick = [one for one in points(load_folder(folder), large, Wanted(quick=True))]
    assert all(read(one.doc) for one in quick if not one.skipped)
    assert sum(not one.skipped for one in quick) <= len(together)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_file_has_the_figure_that_it_is_named_for(folder: Path) -> None:
    for file in folder.glob("figure-*.yaml"):
        number = file.stem.removeprefix("figure-")
        numbers = [group.numbers for group in read(document.load(file)).groups.values()]
        assert all(int(number) in one for one in numbers), file
