# SPDX-License-Identifier: Apache-2.0
"""What is said where there is no cluster, or where a study cannot be on one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.parallel

VNFS = "name: t\ndeployment: {hosting: {kind: appliances, servers: 1}}\nchain: [nat]\n"
OWN = "name: t\nchain: [l2fwd]\nground: {kubernetes: {}}\n"


def run(spec: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    spec.write_text(text)
    return subprocess.run(
        [sys.executable, "-m", "headrace", "run", spec, *options],
        capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "KUBECONFIG": "/nonexistent"},
    )  # fmt: skip


def test_no_cluster_is_one_line(tmp_path: Path) -> None:
    done = run(tmp_path / "t.yaml", VNFS, "--on", "kubernetes")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("headrace: Kubernetes: no cluster: ")
    assert "Traceback" not in done.stderr


def test_a_study_is_checked_without_one(tmp_path: Path) -> None:
    done = run(tmp_path / "t.yaml", VNFS, "--on", "kubernetes", "--check")
    assert done.returncode == 0, done.stderr
    assert "pods bridge" in done.stdout


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("deployment: {lcores: {traffic: [0], chain: [1]}}", "deployment.lcores: on Kubernetes"),
        ("deployment: {hosting: process}", "allowed: inline, container"),
        ("deployment: {execution: {segments: [[l2fwd]], replicas: [2]}}", "one replica of each"),
        (
            "deployment: {hosting: container, network: bridge}",
            "on Kubernetes pods are joined by memif",
        ),
        ("deployment: {hosting: {kind: container, chains: 2}}", "allowed of hosting: kind"),
    ],
)
def test_what_pods_cannot_have_is_named(tmp_path: Path, more: str, words: str) -> None:
    done = run(tmp_path / "t.yaml", OWN + more + "\n", "--check")
    assert done.returncode == 2
    assert words in done.stderr.splitlines()[-1]


def test_a_network_without_its_name_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path / "t.yaml", VNFS + "ground: {kubernetes: {network: macvlan}}\n", "--check")
    assert done.returncode == 2
    assert "`master` and `network: macvlan` go together" in done.stderr
