# SPDX-License-Identifier: Apache-2.0
"""Where a plan is to be written is tried before minutes of measuring; what a plan's bundle is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.cli._study_run import on_server, open_spec
from headrace.cli.plan import _check_output, _check_writable, plan
from headrace.cli.provision import provision
from headrace.cli.run import run
from headrace.errors import BadInput
from headrace.host.programs import shipped
from headrace.host.store import server_named
from headrace.record.bundle import BundleWriter
from headrace.spec import document
from headrace.spec.provision import Provision

STUDIES = shipped("studies")


def test_where_nothing_can_be_written_is_said_at_once(tmp_path: Path) -> None:
    for wrong in (tmp_path, tmp_path / "none" / "chosen.yaml", Path("/proc/chosen.yaml")):
        with pytest.raises(BadInput, match=f"--out: got '{wrong}'; cannot be written: "):
            _check_writable("--out", wrong)


def test_looking_leaves_everything_as_it_was(tmp_path: Path) -> None:
    _check_writable("--out", None)
    new, old = tmp_path / "new.yaml", tmp_path / "old.yaml"
    old.write_text("name: old\n")
    _check_writable("--out", new)
    _check_writable("--html", old)
    assert not new.exists() and old.read_text() == "name: old\n"


def test_the_study_is_not_written_over(tmp_path: Path) -> None:
    study = tmp_path / "s.yaml"
    study.write_text("name: s\n")
    (tmp_path / "link.yaml").symlink_to(study)
    for same in (study, tmp_path / "link.yaml"):
        with pytest.raises(BadInput, match="is the study itself; allowed: another file"):
            _check_output("--out", same, document.load(study))


def test_no_name_of_a_server_is_not_this_machine(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("name: s\n")
    doc = document.load(tmp_path / "s.yaml")
    for name in ("", "nowhere"):
        with pytest.raises(
            BadInput, match=f"^--on: got '{name}'; no such file; allowed: a file, or"
        ):
            on_server(doc, name)
    with pytest.raises(BadInput, match=r"^server: got ''; no such file"):
        server_named(doc, "")


def test_no_name_of_a_spec_is_not_this_directory() -> None:
    for begin in (lambda: run(Path(), on="reference"), lambda: open_spec(Path(), trusted=False)):
        with pytest.raises(BadInput, match="SPEC: is empty"):
            begin()


def test_a_folder_of_nothing_is_neither_studies_nor_a_bundle(tmp_path: Path) -> None:
    words = "SPEC: got .* is a folder with neither studies .* nor a bundle; allowed: a spec"
    with pytest.raises(BadInput, match=words):
        run(tmp_path, check=True)


def test_what_a_placement_does_not_take_is_refused() -> None:
    """It is by stored costs alone: `--costs` was taken, and nothing came of it."""
    with pytest.raises(BadInput, match="--costs: got 'profiles'; allowed: none beside --server"):
        plan(STUDIES / "placement.yaml", server="reference", costs_from="profiles")


@pytest.mark.parametrize("command", [plan, provision])
def test_a_chain_that_lets_nothing_out_has_no_place(
    command: Callable[..., None], tmp_path: Path
) -> None:
    """It costs little, and carries nothing: it was placed as one that carries all."""
    spec = tmp_path / "denies.yaml"
    spec.write_text(
        "name: denies\nchains:\n  one: [l2fwd]\n  two: [l2fwd, acl]\n"
        "workload: {frame: 64}\ndemands: {one: {rate: 1M}, two: {rate: 1M}}\n"
    )
    with pytest.raises(BadInput, match=r"denies.yaml:4: chains.two: of \d+ packets .* none comes"):
        command(spec, server=["reference"] if command is provision else "reference")


@pytest.mark.long
def test_servers_and_factors_count_once(capsys: pytest.CaptureFixture[str]) -> None:
    study, name = STUDIES / "placement.yaml", "xeon-platinum-8168"
    file = str(shipped("servers") / f"{name}.yaml")
    provision(study, [name, file, name], [1.0, 0.5, 1.0], as_json=True)
    needs = Provision.model_validate_json(capsys.readouterr().out).needs
    assert [(row.server, row.factor) for row in needs] == [(name, 0.5), (name, 1.0)]
    with pytest.raises(BadInput, match=r"--factor: got 1e-300; allowed: 0.001 to 1000"):
        provision(study, [name], [1e-300])


def test_what_is_predicted_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """A prediction of trials of minutes takes seconds, and is not called a measurement."""
    quickstart = STUDIES / "quickstart.yaml"
    run(quickstart, check=True, on="xeon-gold-5118")
    heading, first, *_ = capsys.readouterr().out.splitlines()
    assert heading == "quickstart: 3 predictions, about 6 s"
    assert first.startswith("  quickstart, rtc (predicted), 64B")


def test_a_bundle_of_another_command_says_which(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Its study is run, which is not all of it: that is told before anything is measured."""
    with BundleWriter(tmp_path / "b", command=("headrace", "plan", "my chain.yaml", "--verify")):
        pass
    with pytest.raises(BadInput, match="has no spec to replay"):
        run(tmp_path / "b")
    note = " ".join(capfd.readouterr().err.split())
    assert f"{tmp_path / 'b'} is of `headrace plan`" in note
    assert f"headrace plan 'my chain.yaml' --verify, with {tmp_path / 'b'} as its spec" in note
