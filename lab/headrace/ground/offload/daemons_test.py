# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from headrace.ground.offload.daemons import last_words_in


def test_its_words_are_no_commands_of_a_terminal(tmp_path: Path) -> None:
    """What its peers say may be among them."""
    log = tmp_path / "log"
    log.write_bytes(b"first\npeer says \x1b]0;mine\x07\n")
    assert last_words_in(log) == "peer says ?]0;mine?"
