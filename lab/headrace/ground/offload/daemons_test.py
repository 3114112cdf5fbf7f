# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.ground.offload import daemons as module
from headrace.ground.offload.daemons import Daemons, last_words_in
from headrace.host.ledger import Ledger
from headrace.spec.offload import RouterVnf


def test_its_words_are_no_commands_of_a_terminal(tmp_path: Path) -> None:
    """What its peers say may be among them."""
    log = tmp_path / "log"
    log.write_bytes(b"first\npeer says \x1b]0;mine\x07\n")
    assert last_words_in(log) == "peer says ?]0;mine?"


def _speakers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vtysh: str) -> Daemons:
    """Daemons whose folder is their own, and a vtysh that says what they have it say."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "vtysh").write_text(f"#!/bin/sh\n{vtysh}\n")
    (programs / "vtysh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    vnf = RouterVnf.model_validate(
        {
            "interfaces": {"e0": {"port": "p"}},
            "routing": {"daemon": "frr", "daemons": ["bgpd"], "config": "x"},
        }
    )
    return Daemons("r", vnf, "nowhere", None, tmp_path / "r", Ledger(tmp_path))


def test_daemons_that_never_stop_talking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """vtysh prints what a daemon answers: without an end it would take all of the lab's memory."""
    daemons = _speakers(tmp_path, monkeypatch, "exec yes")
    with pytest.raises(HeadraceError, match=r"^vnfs\.r: vtysh wrote more than 16777216 bytes$"):
        daemons._vtysh("-c", "show")


def test_daemons_that_do_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    daemons = _speakers(tmp_path, monkeypatch, "exec sleep 60")
    monkeypatch.setattr(module, "_VTYSH_S", 0.2)
    with pytest.raises(HeadraceError, match=r"^vnfs\.r: vtysh did not end in 0 s$"):
        daemons._vtysh("-c", "show")


def test_a_link_in_the_daemons_folder_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever took over a daemon can put one there before its VNF is started again."""
    daemons = _speakers(tmp_path, monkeypatch, "exit 0")
    monkeypatch.setattr(module, "check_frr", lambda vnf: None)
    monkeypatch.setattr(shutil, "chown", lambda *arguments: None)
    monkeypatch.setattr(Daemons, "_add", lambda *arguments: None)
    monkeypatch.setattr(Daemons, "_wait_for", lambda *arguments: None)
    monkeypatch.setattr(Daemons, "_configure_frr", lambda *arguments: None)
    daemons.folder.mkdir()
    for name in ("empty", "zebra.pid", "zebra.vty", "zserv.api"):
        (daemons.folder / name).symlink_to(tmp_path / "nologin")
    daemons.start()
    assert not (tmp_path / "nologin").exists()
