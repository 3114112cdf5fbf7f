# SPDX-License-Identifier: Apache-2.0
"""What a container's counters program may write, and what is taken of it."""

from __future__ import annotations

import pytest

from headrace.ground.appliances.graph import counters_in


def test_lines_of_a_name_and_a_value() -> None:
    text = "in 12\nrequests_from_10.0.0.1 3\nsent 1.5e+10\nmean 2.75\nleft -1\n"
    assert counters_in(text) == {
        "in": 12, "requests_from_10.0.0.1": 3, "sent": 15_000_000_000, "mean": 2, "left": -1,
    }  # fmt: skip


def test_a_large_number_is_exact() -> None:
    assert counters_in("bytes 999999999999999999") == {"bytes": 999999999999999999}


@pytest.mark.parametrize(
    "line",
    ["a nan", "a inf", "a 1e99", "a 1.0e99", "a \u00b2", "a 1_000", "a", "5", "a b 3", "a\x1b[2J 3",
     f"{'a' * 65} 1", f"a {'9' * 19}", "a 0x10", "a 1e-3"],
)  # fmt: skip
def test_nothing_else(line: str) -> None:
    assert counters_in(line) == {}


def test_not_more_than_a_thousand() -> None:
    assert len(counters_in("".join(f"c{i} {i}\n" for i in range(5000)))) == 1000
