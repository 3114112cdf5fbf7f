# SPDX-License-Identifier: Apache-2.0
"""Many commands of ip(8) by one process: one in place of it that writes down what it is told, and
the real one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.host import iproute2
from headrace.host.iproute2 import ip, ip_each


def instead(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "ip"
    program.write_text(f"#!/bin/sh\ncd {folder}\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_all_in_order_by_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    instead(tmp_path, 'echo "$@" >> started; cat >> told', monkeypatch)
    ip_each([("link", "set", "dev", f"eth{i}", "name", "# 1") for i in range(3)])
    assert (tmp_path / "started").read_text() == "-batch -\n"
    told = (tmp_path / "told").read_text().splitlines()
    assert told == [f"link set dev eth{i} name '# 1'" for i in range(3)]


def test_nothing_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    instead(tmp_path, "echo >> started", monkeypatch)
    ip_each([])
    assert not (tmp_path / "started").exists()


def test_the_one_that_fails_is_named_in_full() -> None:
    commands = [("link", "show", "dev", name) for name in ("lo", "nosuch0", "nosuch1")]
    with pytest.raises(HeadraceError, match=r"^ip link show dev nosuch0: .*nosuch0.* not exist"):
        ip_each(commands)


def test_one_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was a traceback."""
    instead(tmp_path, "exec sleep 60", monkeypatch)
    monkeypatch.setattr(iproute2, "_TIMEOUT_S", 0.2)
    with pytest.raises(HeadraceError, match=r"^ip link show: has not ended after 0\.2 s$"):
        ip("link", "show")
