# SPDX-License-Identifier: Apache-2.0
"""What SSH's library cannot read is told as what cannot be reached is: in one line."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.host.ssh import SshProgram

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ("ConnectTimeout soon", "Invalid ConnectTimeout"),
        ("IdentityFile {home}/key", "private key"),
        ("Port 1", "ssh x@127.0.0.1: "),
    ],
)
def test_what_cannot_be_read_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str, why: str
) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / "key").write_text(KEY)
    (tmp_path / ".ssh" / "config").write_text(config.format(home=tmp_path) + "\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    unheard: list[object] = []  # what a thread ends with is a traceback on standard error
    monkeypatch.setattr(threading, "excepthook", unheard.append)
    with pytest.raises(HeadraceError, match=r"^ssh x@127\.0\.0\.1: [^\n]*$") as told:
        SshProgram("x@127.0.0.1", ["true"])
    assert why in str(told.value) and not unheard
