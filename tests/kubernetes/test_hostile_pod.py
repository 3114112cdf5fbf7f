# SPDX-License-Identifier: Apache-2.0
"""A real pod that answers without end: the lab asks it as it asks VNFs, and is bounded in time and
memory."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support.cluster import OwnCluster

pytestmark = [pytest.mark.slow, pytest.mark.needs_root]

ASK = """
import json, resource, sys, time
from headrace.errors import HeadraceError
from headrace.host.cluster import Cluster
cluster, answers = Cluster(), {}
for command in (
    ["yes"], ["cat", "/dev/zero"], ["sh", "-c", "yes >&2"],
    ["sh", "-c", "while :; do echo; sleep 0.1; done"], ["sh", "-c", "exit 7"],
):
    began = time.monotonic()
    try:
        said = cluster.execute("hostile", "p", "c", command, timeout_s=20).returncode
    except HeadraceError as why:
        said = str(why)
    answers[" ".join(command)] = [said, time.monotonic() - began]
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
print(json.dumps([answers, peak]))
"""
READY = "--timeout=120s"  # of its own accord kubectl waits for 30
MOST = "wrote more than 16777216 bytes"


def test_a_pod_that_answers_without_end_is_bounded(cluster: OwnCluster, tmp_path: Path) -> None:
    from headrace.ground import catalogue

    image = catalogue.find("traffic").image
    cluster.load(image)
    container = {"name": "c", "image": image, "command": ["sleep", "600"]}
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "hostile"},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
    }  # fmt: skip
    (tmp_path / "pod.json").write_text(json.dumps(pod))
    try:
        cluster.kubectl("create", "namespace", "hostile")
        cluster.kubectl("wait", "-n", "hostile", "--for=create", "serviceaccount/default")
        cluster.kubectl("apply", "-f", tmp_path / "pod.json")
        cluster.kubectl("wait", "-n", "hostile", "--for=condition=Ready", "pod/p", READY)
        done = cluster.run(sys.executable, "-c", ASK)
        assert done.returncode == 0, done.stderr
        answers, peak_mb = json.loads(done.stdout)
        print(answers, peak_mb)
        assert answers.pop("sh -c exit 7")[0] == 7
        slow, seconds = answers.pop("sh -c while :; do echo; sleep 0.1; done")
        assert slow == "p: sh did not end in 20 s"
        assert seconds < 30
        for command, (problem, seconds) in answers.items():
            assert problem == f"p: {command.split()[0]} {MOST}"
            assert seconds < 60
        assert peak_mb < 300
    finally:
        cluster.kubectl("delete", "namespace", "hostile", "--timeout=120s")
