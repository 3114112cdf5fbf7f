# SPDX-License-Identifier: Apache-2.0
"""Which tool is chosen, and in what its command lines differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import BadInput, HeadraceError
from headrace.host.tool import VARIABLE, Tool, tool


def programs(folder: Path, *names: str, script: str = "exit 0") -> str:
    for name in names:
        file = folder / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
    return str(folder)


@pytest.mark.parametrize(
    ("installed", "named", "chosen"),
    [
        (("podman", "docker"), "", "podman"),
        (("docker",), "", "docker"),
        (("podman", "docker"), "docker", "docker"),
    ],
)
def test_the_one_that_is_installed_or_named(
    installed: tuple[str, ...],
    named: str,
    chosen: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", programs(tmp_path, *installed))
    monkeypatch.setenv(VARIABLE, named)
    assert tool().name == chosen


def test_none_and_a_wrong_name_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv(VARIABLE, "")
    with pytest.raises(HeadraceError, match="podman: not found; install it"):
        tool()
    monkeypatch.setenv(VARIABLE, "docker")
    with pytest.raises(HeadraceError, match=r"docker: not found.*docker\.io"):
        tool()
    monkeypatch.setenv(VARIABLE, "lxc")
    with pytest.raises(BadInput, match="HEADRACE_CONTAINERS: got 'lxc'; allowed: podman or docker"):
        tool()


def test_a_daemon_that_does_not_answer_is_named(tmp_path: Path) -> None:
    programs(tmp_path, "docker", script="echo 'Cannot connect to the Docker daemon' >&2; exit 1")
    with pytest.raises(HeadraceError, match=r"docker: its daemon does not answer: Cannot connect"):
        Tool("docker", str(tmp_path / "docker")).answers()


def test_podman_is_waited_for_longer_than_a_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs(tmp_path, "docker", "podman", script="sleep 1; echo there")
    monkeypatch.setattr("headrace.host.tool._ASK_S", {"docker": 0.1, "podman": 60.0})
    with pytest.raises(HeadraceError, match=r"docker info: no answer in 0 s"):
        Tool("docker", str(tmp_path / "docker")).ask("info")
    assert Tool("podman", str(tmp_path / "podman")).ask("info").stdout == "there\n"


def test_a_failure_is_its_last_words(tmp_path: Path) -> None:
    programs(tmp_path, "podman", script="echo first >&2; echo second >&2; exit 125")
    with pytest.raises(HeadraceError, match=r"^podman image rm: second$"):
        Tool("podman", str(tmp_path / "podman")).call(["image", "rm", "x"])


def test_docker_joins_where_podman_enters() -> None:
    podman, docker = Tool("podman", "podman"), Tool("docker", "docker")
    assert podman.network("hr1-nat", "hr1-nat.net") == "ns:/run/netns/hr1-nat"
    assert docker.network("hr1-nat", "hr1-nat.net") == "container:hr1-nat.net"
