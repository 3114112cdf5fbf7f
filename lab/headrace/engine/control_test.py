# SPDX-License-Identifier: Apache-2.0
"""Answers of an engine that is a VNF's, and says what it likes."""

from __future__ import annotations

import socket
import threading

import pytest

from headrace.engine.control import Control, ControlError
from headrace.engine.counts import EngineCounts
from headrace.errors import HeadraceError


def answered(reply: bytes, counts: bool) -> HeadraceError:
    ours, theirs = socket.socketpair()
    sender = threading.Thread(target=theirs.sendall, args=(reply + b"\n",))
    sender.start()
    control = Control(ours, 5)
    with pytest.raises(HeadraceError) as caught:
        if counts:
            control.receive_as("read", EngineCounts)
        else:
            control.receive("read")
    sender.join()
    control.close()
    theirs.close()
    return caught.value


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize(
    "reply",
    [
        b"[]",
        b"7",
        b"null",
        b"[" * 100_000,
        b'{"ok": ' + b"9" * 5000 + b"}",
        b'{"ok": "\xff"}',
        b'{"ok": false, "error": [1]}',
        b'{"ok": false, "error": {"path": [], "msg": {}}}',
    ],
    ids=lambda reply: reply[:12],
)
def test_every_answer_that_is_none_is_said_in_one_line(reply: bytes, counts: bool) -> None:
    text = str(answered(reply, counts))
    assert text.startswith("engine: ") and "read" in text and "\n" not in text


@pytest.mark.parametrize("counts", [False, True])
def test_no_escape_sequence_reaches_the_terminal(counts: bool) -> None:
    error = answered(
        b'{"ok": false, "error": {"path": "\\u001b[2J", "msg": "\\u001b]0;owned\\u0007"}}', counts
    )
    assert isinstance(error, ControlError)
    assert str(error) == "engine: read: ?[2J: ?]0;owned?" and error.msg.isprintable()
