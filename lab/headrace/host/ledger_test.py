# SPDX-License-Identifier: Apache-2.0
"""Whatever is in a ledger goes, twice without harm; nothing else does."""

from __future__ import annotations

import os
import secrets
import subprocess
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from headrace.host.ledger import Ledger, undo
from headrace.host.plumbing import add_veth, counts, make_namespace
from headrace.host.processes import Process

root = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")


def links() -> set[str]:
    with IPRoute() as ip:
        return {str(link.get_attr("IFLA_IFNAME")) for link in ip.get_links()}


def test_nothing_written_nothing_done(tmp_path: Path) -> None:
    assert undo(tmp_path / "resources.jsonl") == []


def test_torn_and_foreign_lines_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "resources.jsonl"
    file.write_text('{"kind": "planet", "name": "x"}\n[]\n{"kind": "link", "na')
    assert undo(file) == []


@root
def test_network_goes_and_the_rest_stays(tmp_path: Path) -> None:
    tag = f"hr{secrets.token_hex(2)}"
    before = links()
    ledger = Ledger(tmp_path)
    make_namespace(f"{tag}-a", ledger)
    add_veth(f"{tag}p1", f"{tag}-a", "up", "02:48:00:00:00:01", ledger)
    ledger.note("link", f"{tag}p2")  # written down, but the kill came first
    assert f"{tag}p1" in links()
    assert "up" in counts(f"{tag}-a")
    assert {f"removed link {tag}p1", f"removed netns {tag}-a"} <= set(ledger.undo())
    assert links() == before
    assert ledger.undo() == []


def test_processes_by_number_and_start(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        process = Process.of(sleeper.pid)
        assert process is not None
        ledger.note("process", f"{process.pid}:{process.started + 1}")  # another of that number
        assert ledger.undo() == []
        assert process.alive()
        ledger.note("process", f"{process.pid}:{process.started}")
        assert ledger.undo() == [f"removed process {process.pid}:{process.started}"]
