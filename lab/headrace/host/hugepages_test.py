# SPDX-License-Identifier: Apache-2.0
"""Pools of hugepages; sysfs, which tells, is here a folder of its form."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.host import hugepages
from headrace.spec.vm import GIGABYTE_KB


def test_pages_of_another_size_than_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hugepages, "_SYS", tmp_path)
    assert hugepages.pool_of(GIGABYTE_KB) is None
    assert hugepages.no_gigabyte_pages(1) == "this machine has none"
    pool = tmp_path / "hugepages-1048576kB"
    pool.mkdir()
    for name, count in (("nr", 4), ("free", 3), ("resv", 2)):
        (pool / f"{name}_hugepages").write_text(f"{count}\n")
    gigabytes = hugepages.pool_of(GIGABYTE_KB)
    assert gigabytes is not None and (gigabytes.total, gigabytes.free) == (4, 1)
    assert hugepages.lacking(2048, gigabytes) == 1 and not hugepages.lacking(1024, gigabytes)
    assert hugepages.no_gigabyte_pages(1) is None
    assert str(hugepages.no_gigabyte_pages(2)).startswith("1 of 4 are free (echo 2 > ")
