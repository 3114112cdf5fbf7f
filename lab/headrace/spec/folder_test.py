# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
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


@pytest.mark.parametrize(
    ("path", "place"),
    [
        (("measure", "max"), r"figure-8.yaml:12: groups.b.spec.measure.max"),
        (("measure", "trial"), r"figure-8.yaml:4: measure.trial"),  # of all its groups
        (("warmup",), r"figure-8.yaml:2: warmup"),  # which nobody wrote
        (("sweep", "workload.frame"), r"figure-8.yaml:6: sweep.workload.frame"),
    ],
)
def test_an_error_of_a_point_names_its_file(
    tmp_path: Path, path: tuple[str, ...], place: str
) -> None:
    """The text that the files come to has lines of its own, and is no file."""
    doc = load_folder(filled(tmp_path, ("a", 3, "10"), ("b", 4, "8")))
    [one, _] = points(doc, Machine(2, 1), Wanted(group="b"))
    whole = ("groups", "b", *(() if path[0] == "sweep" else ("spec",)), *path)
    for error in (one.doc.error(path, "not so"), doc.error(whole, "not so")):
        assert re.match(f"{tmp_path}/{place}: not so", str(error))


def test_an_error_of_all_files_names_the_folder(tmp_path: Path) -> None:
    doc = load_folder(filled(tmp_path, ("a", 3, "10"), ("b", 4, "8")))
    assert str(doc.error(("name",), "not so")) == f"{tmp_path}: name: not so"
    (tmp_path / "figure-8.yaml").write_text(
        (tmp_path / "figure-8.yaml").read_text().replace("quick: {repetitions: 1}\n", "")
    )
    (tmp_path / "figure-10.yaml").unlink()
    with pytest.raises(BadInput, match=f"^--quick: {tmp_path} has no `quick`"):
        points(load_folder(tmp_path), Machine(2, 1), Wanted(quick=True))


def test_a_study_without_figures_says_so(tmp_path: Path) -> None:
    doc = load_folder(filled(tmp_path, ("a", 3, "8")))
    with pytest.raises(BadInput, match=r"^--figure: got 9; allowed: 8$"):
        points(doc, Machine(2, 1), Wanted(figure=9))
    file = tmp_path / "figure-8.yaml"
    file.write_text(file.read_text().replace('    figures: ["8"]\n', ""))
    with pytest.raises(BadInput, match=r"^--figure: got 9; study .* has no figures; allowed: --g"):
        points(load_folder(tmp_path), Machine(2, 1), Wanted(figure=9))


def test_a_bundle_is_no_folder_of_studies(tmp_path: Path) -> None:
    assert not is_folder(tmp_path)
    filled(tmp_path, ("a", 3, "8"))
    assert is_folder(tmp_path)
    (tmp_path / "status.json").write_text("{}")
    assert not is_folder(tmp_path)
    (tmp_path / "status.json").rename(tmp_path / "resolved.json")  # what is left of one
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
