# SPDX-License-Identifier: Apache-2.0
"""Programs that say nothing, too much, or never end."""

from __future__ import annotations

import time

import pytest

from headrace.host.bounded import Unbounded, run_bounded


def test_what_a_program_says_is_given_as_it_is() -> None:
    done = run_bounded(["sh", "-c", "printf 'a\\377b'; echo no >&2; exit 3"], 10)
    assert (done.returncode, done.stdout, done.stderr) == (3, "a\N{REPLACEMENT CHARACTER}b", "no\n")


def test_a_program_that_says_too_much_is_ended() -> None:
    with pytest.raises(Unbounded, match="wrote more than 65536 bytes"):
        run_bounded(["yes"], 60, most=1 << 16)


@pytest.mark.parametrize("script", ["exec sleep 60", "exec >&- 2>&-; exec sleep 60"])
def test_a_program_that_does_not_end_is_ended(script: str) -> None:
    began = time.monotonic()
    with pytest.raises(Unbounded, match="did not end in 0 s"):
        run_bounded(["sh", "-c", script], 0.2)
    assert time.monotonic() - began < 30
