# SPDX-License-Identifier: Apache-2.0
"""A bundle that may be a stranger's: what its spec may name, and what it may not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.engine.describe import check_params, files_in, with_absolute_files
from headrace.errors import BadInput
from headrace.host.store import server_named
from headrace.record.again import document_of
from headrace.record.bundle import Bundle, BundleWriter
from headrace.spec.document import Document, parse

SPEC = "name: mine\nchain: [acl]\n"


def bundle(folder: Path, inputs: Any = None) -> Bundle:
    """With one input, rules.txt, unless `inputs` says otherwise."""
    (folder / "rules.txt").write_text("rules\n")
    with BundleWriter(folder / "b") as writer:
        writer.input("0-rules.txt", folder / "rules.txt")
        inputs = {"rules.txt": "inputs/0-rules.txt"} if inputs is None else inputs
        writer.spec(SPEC, {"inputs": inputs})
    return Bundle(folder / "b")


def document(of: Bundle, **more: bool) -> Document:
    doc = document_of(of, **more)
    assert doc is not None
    return doc


def test_its_files_are_the_copies(tmp_path: Path) -> None:
    doc = document(bundle(tmp_path))
    assert doc.resolve("rules.txt") == tmp_path / "b" / "inputs" / "0-rules.txt"


@pytest.mark.parametrize("name", ["other.txt", "/etc/passwd", "../rules.txt"])
def test_it_names_no_other_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput, match=f"names {name}, of which the bundle holds no copy"):
        document(bundle(tmp_path)).resolve(name)


@pytest.mark.parametrize(
    "copy",
    ["/etc/passwd", "../rules.txt", "inputs/../../rules.txt", "inputs/..", "inputs", "spec.yaml",
     "", 7, None, ["inputs/0-rules.txt"], "inputs/a\0b"],
)  # fmt: skip
def test_a_copy_is_in_its_inputs(tmp_path: Path, copy: Any) -> None:
    with pytest.raises(BadInput, match=r"inputs\.rules\.txt: got .*; allowed: a file in"):
        document_of(bundle(tmp_path, {"rules.txt": copy}))


def test_inputs_are_an_object(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="inputs: must be an object"):
        document_of(bundle(tmp_path, ["inputs/0-rules.txt"]))


@pytest.mark.parametrize("name", ["inputs/0-rules.txt", "inputs", "spec.yaml"])
def test_links_are_refused(tmp_path: Path, name: str) -> None:
    one = bundle(tmp_path)
    (one.path / name).rename(tmp_path / "elsewhere")
    (one.path / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadInput, match=r"is a link|is no regular file"):
        document_of(one)


def test_a_copy_that_is_missing(tmp_path: Path) -> None:
    one = bundle(tmp_path)
    (one.path / "inputs" / "0-rules.txt").unlink()
    with pytest.raises(BadInput, match=r"0-rules\.txt: No such file or directory"):
        document_of(one)


def test_programs_need_trust(tmp_path: Path) -> None:
    one = bundle(tmp_path)
    with pytest.raises(BadInput, match=r"got '/opt/evil'; would be run .* with --trust"):
        document(one).program(("deployment", "engine"), "/opt/evil")
    trusted = document(one, trusted=True)
    assert trusted.program(("deployment", "engine"), "/opt/evil") == Path("/opt/evil")


def test_outputs_need_trust(tmp_path: Path) -> None:
    schema = {"properties": {"file": {"type": "string", "format": "output"}}}
    one, given = bundle(tmp_path), {"file": "/root/.bashrc"}
    with pytest.raises(BadInput, match=r"got '/root/.bashrc'; would be written to .* with --trust"):
        check_params(schema, given, document(one), ("chain", 0))
    check_params(schema, given, document(one, trusted=True), ("chain", 0))


def test_outputs_are_beside_the_spec(tmp_path: Path) -> None:
    schema = {"properties": {"file": {"type": "string", "format": "output"}}}
    (tmp_path / "link").symlink_to("elsewhere")
    doc = parse(SPEC, tmp_path / "x.yaml")
    assert with_absolute_files(schema, {"file": "link"}, doc) == {"file": str(tmp_path / "link")}
    assert files_in(schema, {"file": "link"}, "output") == ["link"]
    assert files_in(schema, {"file": "link"}) == []


def test_what_the_replay_writes_itself_needs_no_copy(tmp_path: Path) -> None:
    """Routing daemons' configuration, as a study of convergence has it."""
    with BundleWriter(tmp_path / "b") as writer:
        writer.spec("name: x\nchain: [l2fwd]\n", {})
    doc = document_of(Bundle(tmp_path / "b"))
    assert doc is not None
    (tmp_path / "own").mkdir()
    file = tmp_path / "own" / "router.conf"
    file.touch()
    with pytest.raises(BadInput, match="of which the bundle holds no copy"):
        doc.resolve(str(file))
    assert doc.with_own(tmp_path / "own").resolve(str(file)) == file


def test_servers_of_headrace_need_no_copy(tmp_path: Path) -> None:
    doc = document(bundle(tmp_path))
    assert server_named(doc, "reference").name == "reference.yaml"
    with pytest.raises(BadInput, match="names unknown, of which the bundle holds no copy"):
        server_named(doc, "unknown")
