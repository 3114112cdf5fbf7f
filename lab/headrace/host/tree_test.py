# SPDX-License-Identifier: Apache-2.0
"""Folders as a VNF may leave them."""

from __future__ import annotations

import os
from pathlib import Path

from headrace.host.tree import remove_tree


def deep(folder: Path, levels: int = 3000) -> Path:
    """Deeper than Python's stack, a process's descriptors and the longest path."""
    folder.mkdir(parents=True)
    at = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.symlink("/", "link", dir_fd=at)
    os.close(at)
    return folder


def test_depth(tmp_path: Path) -> None:
    assert remove_tree(deep(tmp_path / "a"))
    assert not (tmp_path / "a").exists()


def test_links_are_not_followed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    (kept / "inner").mkdir(parents=True)
    (kept / "file").touch()
    for name in ("x", "y"):
        (tmp_path / "a" / name / "z").mkdir(parents=True)
        (tmp_path / "a" / name / "folder").symlink_to(kept)
        (tmp_path / "a" / name / "file").symlink_to(kept / "file")
        os.mkfifo(tmp_path / "a" / name / "pipe")
    assert remove_tree(tmp_path / "a") and not (tmp_path / "a").exists()
    (tmp_path / "link").symlink_to(kept)
    assert not remove_tree(tmp_path / "link")
    assert (kept / "file").exists() and (kept / "inner").exists()


def test_nothing_there_is_nothing_left(tmp_path: Path) -> None:
    assert remove_tree(tmp_path / "none") and remove_tree(tmp_path / "none" / "below")
