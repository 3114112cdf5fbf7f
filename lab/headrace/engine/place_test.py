# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from headrace.engine import place


def test_the_generators_core_has_no_other_work_while_others_are_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four cores of two threads, numbered as Linux does."""
    for cpu in range(8):
        folder = tmp_path / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{cpu % 4},{cpu % 4 + 4}\n")
    monkeypatch.setattr(place, "_SYS_CPU", tmp_path)
    assert place.apart_first([1, 2, 3, 4, 5, 6, 7], [0]) == [1, 2, 3, 5, 6, 7, 4]
    assert place.apart_first([2, 3, 4, 5, 6, 7], [0, 1]) == [2, 3, 6, 7, 4, 5]
    monkeypatch.setattr(place, "_SYS_CPU", tmp_path / "none")
    assert place.apart_first([1, 4], [0]) == [1, 4]
