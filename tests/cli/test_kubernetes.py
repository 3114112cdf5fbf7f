# SPDX-License-Identifier: Apache-2.0
"""What is said where there is no cluster, or where a study cannot be on one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.parallel

VNFS = "name: t\ndeployment: {hosting: {kind: appliances, servers: 1}}\nchain: [nat]\n"
TWO_GROUPS = """\
name: few
deployment: {hosting: {kind: appliances, servers: 1}}
groups:
  inside: {about: one, spec: {chain: [nat]}}
  outside: {about: another, spec: {chain: [ip-firewall]}}
"""
OWN = "name: t\nchain: [l2fwd]\n"


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
    note = "  note: it can be checked, and not be run now: Kubernetes: no cluster: no kubeconfig: "
    assert any(line.startswith(note) for line in done.stdout.splitlines())


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
        (
            "deployment: {hugepages: true}\nground: {kubernetes: {link: vhost-user}}",
            "allowed with ground.kubernetes.link vhost-user: false",
        ),
        (
            "ground: {kubernetes: {network: macvlan, master: eth0}}",
            "allowed with headrace's own functions: host-device, or none",
        ),
        ("ground: {kubernetes: {place: {vnf1: node1}}}", "allowed: tester"),
        (
            "ground: {kubernetes: {network: host-device, devices: {tester/left: eth2}}}",
            "allowed: a device for each of tester/left, tester/right, vnf1/in, vnf1/out",
        ),
    ],
)
def test_what_pods_cannot_have_is_named(tmp_path: Path, more: str, words: str) -> None:
    ground = "" if "ground:" in more else "ground: {kubernetes: {}}\n"
    done = run(tmp_path / "t.yaml", f"{OWN}{ground}{more}\n", "--check")
    assert done.returncode == 2
    assert words in done.stderr.splitlines()[-1]


def test_a_network_without_its_name_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path / "t.yaml", VNFS + "ground: {kubernetes: {network: macvlan}}\n", "--check")
    assert done.returncode == 2
    assert "`master` and `network: macvlan` go together" in done.stderr


def test_a_point_is_called_by_the_network_that_it_has(tmp_path: Path) -> None:
    """The ground's, where it names one, and not the study's own."""
    ground = "ground: {kubernetes: {network: macvlan, master: eth0}}\n"
    done = run(tmp_path / "t.yaml", VNFS + ground, "--check")
    assert done.returncode == 0, done.stderr
    assert "pods macvlan" in done.stdout and "pods bridge" not in done.stdout


def export(spec: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    spec.write_text(text)
    command = [sys.executable, "-m", "headrace", "export", "kubernetes", spec, spec.parent / "m"]
    return subprocess.run(
        [*command, *options], capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.parametrize(
    ("text", "point", "folder"),
    [
        (TWO_GROUPS, "outside-1", "few-2"),
        (VNFS.replace("servers: 1", "servers: 1, network: [macvlan, bridge]"), "2", "t-2"),
    ],
)
def test_a_points_manifests_are_those_of_the_whole(
    text: str, point: str, folder: str, tmp_path: Path
) -> None:
    """By its name in a study with groups, else by its number, as of `run`."""
    spec = tmp_path / "t.yaml"
    done = export(spec, text, "--network", "bridge")
    assert done.returncode == 0, done.stderr
    whole = {one.name: (one / "pods.yaml").read_text() for one in (tmp_path / "m").iterdir()}
    assert len(whole) == 2
    shutil.rmtree(tmp_path / "m")
    done = export(spec, text, "--network", "bridge", "--point", point)
    assert done.returncode == 0, done.stderr
    [alone] = (tmp_path / "m").iterdir()
    assert alone.name == folder and (alone / "pods.yaml").read_text() == whole[folder]
    wrong = export(spec, text, "--network", "bridge", "--point", "9")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("headrace: --point: got 9; allowed: ")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--network", "foo"], "--network: got 'foo'; allowed: bridge, macvlan, sriov, host-"),
        (["--network", "host-device"], "--device: allowed: a name, as the network is host-device"),
        (["--claim", "c"], "--claim: got 'c'; allowed: with network sriov"),
        (["--device", "nat/up"], "--device: got 'nat/up'; allowed: CONTAINER/INTERFACE=DEVICE"),
        (["--device", "nat/up=e"], "--device: got 'nat/up=e'; allowed: with network host-device"),
        (["--network", "macvlan"], "--master: allowed: a name, as the network is macvlan"),
        (["--master", "eth1"], "--master: got 'eth1'; allowed: with network macvlan"),
        (["--node", "=x"], "--node: got '=x'; allowed: NODE or CONTAINER=NODE"),
        (["--node", "Bad Name!"], "--node: got 'Bad Name!'; allowed: NODE or"),
        (["--node", "cache=n1"], "--node: got 'cache=n1'; allowed: CONTAINER=NODE with "),
    ],
)
def test_a_wrong_option_is_told_once(options: list[str], words: str, tmp_path: Path) -> None:
    done = export(tmp_path / "t.yaml", TWO_GROUPS, *options)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert line.startswith(f"headrace: {words}")
    assert not (tmp_path / "m").exists()


def test_what_an_earlier_export_left_is_said(tmp_path: Path) -> None:
    assert export(tmp_path / "t.yaml", TWO_GROUPS).stderr == ""
    done = export(tmp_path / "t.yaml", TWO_GROUPS, "--point", "outside-1")
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "m"
    assert done.stderr.splitlines() == [
        f"note: {folder} has 1 other deployment of before, left as they were: few-1"
    ]
    assert done.stdout.startswith(f"{folder}: 1 deployment; ")


def test_no_kubeconfig_is_said(tmp_path: Path) -> None:
    done = run(tmp_path / "t.yaml", VNFS, "--on", "kubernetes")
    assert done.stderr.splitlines()[-1] == (
        "headrace: Kubernetes: no cluster: no kubeconfig: nothing is at '/nonexistent' (KUBECONFIG)"
    )
