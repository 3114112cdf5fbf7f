# SPDX-License-Identifier: Apache-2.0
"""Tests beside the lab's code need no lcore, namespace or device, but those marked `alone`."""

from __future__ import annotations

import gc
import socket
from pathlib import Path

import pytest

LAB = Path(__file__).parent


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """With --reruns each worker tells and asks of each test by TCP, in two short writes: the kernel
    kept the second one back until the first was acknowledged, 40 ms later."""
    told = getattr(getattr(config, "failures_db", None), "sock", None)
    if told is not None:
        told.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(LAB) and not item.get_closest_marker("alone"):
            item.add_marker(pytest.mark.parallel)


def pytest_collection_finish() -> None:
    """What all tests have imported is not looked through for garbage after each few of them: that
    was a quarter of their time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 1000)


def pytest_unconfigure() -> None:
    """What is not looked through is not freed at the end either, of which DuckDB complains."""
    gc.unfreeze()
