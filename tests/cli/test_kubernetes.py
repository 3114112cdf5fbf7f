# SPDX-License-Identifier: Apache-2.0
"""What is said where there is no cluster, or where a study cannot be on one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

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
        [*command, *options], capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "KUBECONFIG": "/nonexistent"},
    )  # fmt: skip


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


PODS = "name: t\nchain: [{acl: {rules_file: my.rules}}, l2fwd]\ndeployment: {execution: pipeline}\n"
RULES = "@0.0.0.0/0\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x00/0x00\t0x0000/0x0000\n"


def test_engines_manifests_have_their_plans_and_files(tmp_path: Path) -> None:
    """Each pod starts its own engine: a caller waits for who listens, no file of this machine's is
    named, and a pod has one lcore. Two exports are of one text."""
    (tmp_path / "my.rules").write_text(RULES)
    done = export(tmp_path / "t.yaml", PODS, "--node", "n1")
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "m" / "t-1"
    texts = {file.name: file.read_text() for file in folder.iterdir()}
    assert str(tmp_path) not in "".join(texts.values())
    [plans] = yaml.safe_load_all(texts["plans.yaml"])
    assert plans["data"].pop("0-my.rules") == RULES
    pods = {one["metadata"]["name"]: one["spec"] for one in yaml.safe_load_all(texts["pods.yaml"])}
    assert list(pods) == ["tester", "vnf1", "vnf2"]
    assert set(plans["data"]) == {f"{pod}.json" for pod in pods}
    listening: list[str] = []
    for pod, body in pods.items():  # from the tester on, who listens for those behind it
        plan = json.loads(plans["data"][f"{pod}.json"])
        assert len({cpu for segment in plan["segments"] for cpu in segment["cpus"]}) == 1
        [engine] = body["containers"]
        script = engine["command"][-1]
        waited = re.findall(r"-S (\S+) ", script)
        assert set(waited) <= set(listening) and bool(waited) == (pod != "tester")
        listening += re.findall(r"\S+-links\S+", script.splitlines()[0])
        assert body["nodeSelector"] == {"kubernetes.io/hostname": "n1"}
    assert json.loads(plans["data"]["vnf1.json"])["nfs"]["acl"]["params"]["rules_file"] == (
        "/given/0-my.rules"
    )
    shutil.rmtree(tmp_path / "m")
    assert export(tmp_path / "t.yaml", PODS, "--node", "n1").returncode == 0
    assert {file.name: file.read_text() for file in folder.iterdir()} == texts


DEVICES = ["tester/left=eth2", "tester/right=eth3", "vnf1/in=eth2", "vnf1/out=eth3"]


def test_engines_apart_are_on_the_nodes_that_are_named(tmp_path: Path) -> None:
    devices = [word for one in DEVICES for word in ("--device", one)]
    apart = ["--network", "host-device", *devices]
    done = export(tmp_path / "t.yaml", OWN, *apart, "--node", "n2", "--node", "tester=n1")
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "m" / "t-1"
    pods = list(yaml.safe_load_all((folder / "pods.yaml").read_text()))
    assert {one["metadata"]["name"]: one["spec"]["nodeSelector"] for one in pods} == {
        "tester": {"kubernetes.io/hostname": "n1"}, "vnf1": {"kubernetes.io/hostname": "n2"},
    }  # fmt: skip
    assert (folder / "networks.yaml").read_text().count("kind: NetworkAttachmentDefinition") == 4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--network", "bridge"], "--network: got 'bridge'; allowed: host-device with headrace's"),
        (["--network", "host-device"], "--device: allowed: a name, as the network is host-device"),
        (["--node", "vnf1=n1"], "--node: got 'vnf1=n1'; allowed: NODE for the chain's pods, teste"),
        (["--node", "n1", "--node", "tester=n2"], "ground.kubernetes.place: got 'n2'; allowed: n1"),
        (["--resource", "x"], "--resource: got 'x'; allowed: with network sriov"),
        (
            ["--network", "host-device", *(w for one in DEVICES for w in ("--device", one))],
            "network host-device: the devices are a node's own; allowed: with",
        ),
    ],
)
def test_what_pods_of_engines_are_not_is_told(
    options: list[str], words: str, tmp_path: Path
) -> None:
    done = export(tmp_path / "t.yaml", OWN, *options)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert line.startswith(f"headrace: {words}")
    assert not (tmp_path / "m").exists()


def test_no_kubeconfig_is_said(tmp_path: Path) -> None:
    done = run(tmp_path / "t.yaml", VNFS, "--on", "kubernetes")
    assert done.stderr.splitlines()[-1] == (
        "headrace: Kubernetes: no cluster: no kubeconfig: nothing is at '/nonexistent' (KUBECONFIG)"
    )
