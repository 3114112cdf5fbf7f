# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests that cross folders. A test that cannot run here is skipped and says why."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cluster import cluster, images, kubectl, own_image, own_state  # noqa: F401
from support.engine import Engine, free_cpus
from support.netns import Lan, netns_refusal

REPO = Path(__file__).resolve().parents[1]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs_root: makes namespaces or devices")
    config.addinivalue_line("markers", "slow: minutes; run where HEADRACE_SLOW is set")
    config.addinivalue_line(
        "markers",
        "beside: holds no figure of speed or time, so that the parallel ones may have what it "
        "leaves of the CPUs; `make test` runs these one at a time",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    root = pytest.mark.skip(reason="needs root (make test runs it through sudo where it may)")
    slow = pytest.mark.skip(reason="takes minutes: make test-slow, make test-containers")
    for item in items:
        if item.get_closest_marker("needs_root") and os.geteuid() != 0:
            item.add_marker(root)
        if item.get_closest_marker("slow") and not os.environ.get("HEADRACE_SLOW"):
            item.add_marker(slow)


@pytest.fixture(scope="session")
def engine_binary() -> Path:
    """The engine as built, or the one that HEADRACE_ENGINE names."""
    path = Path(os.environ.get("HEADRACE_ENGINE") or REPO / "build/engine/headrace-engine")
    if not path.is_file():
        pytest.skip(f"{path} is missing: run `make setup`")
    return path


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Rule sets, routes and captures that are too large for the repository."""
    folder = Path(os.environ.get("HEADRACE_SHARED") or REPO.parent / "shared") / "data"
    if not folder.is_dir():
        pytest.skip("no shared data: not beside the repository, and HEADRACE_SHARED not set")
    return folder


@pytest.fixture
def start_engine(engine_binary: Path, tmp_path: Path) -> Callable[..., Engine]:
    """`with start_engine(plan) as engine:` runs the engine; it is ended when the block is."""

    def start(plan: dict[str, Any], netns: str | None = None) -> Engine:
        return Engine(engine_binary, plan, tmp_path, netns=netns)

    return start


@pytest.fixture
def cpus() -> list[int]:
    return free_cpus()


@pytest.fixture
def lan() -> Iterator[Lan]:
    """Namespaces and veth pairs of this test's own, removed when it ends."""
    if refusal := netns_refusal():
        pytest.skip(refusal)
    with Lan() as own:
        yield own
