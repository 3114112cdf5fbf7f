# SPDX-License-Identifier: Apache-2.0
"""A cluster that runs a Job's command here, in the place of its node."""

from __future__ import annotations

import base64
import io
import re
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import BadInput, HeadraceError
from headrace.ground.kubernetes import jobs as jobs_module
from headrace.ground.kubernetes.jobs import GIVEN, RESULT, ClusterJobs, around, unpack
from headrace.host.cluster import Cluster


class HereCluster(Cluster):
    """With one node, which has what `around` gave; `cut`: characters of a log that it keeps."""

    def __init__(self, folder: Path, cut: int | None = None) -> None:
        self.folder, self.cut = folder, cut
        self.deleted: list[str] = []
        self.done: dict[str, subprocess.CompletedProcess[str]] = {}
        for place in ("given", "out", "tmp"):
            (folder / place).mkdir()

    def create(self, body: Mapping[str, Any]) -> None:
        if body["kind"] == "ConfigMap":
            for name, text in body.get("binaryData", {}).items():
                (self.folder / "given" / name).write_bytes(base64.b64decode(text))
            for name, text in body["data"].items():
                (self.folder / "given" / name).write_text(text)
        if body["kind"] != "Job":
            return
        [container] = body["spec"]["template"]["spec"]["containers"]
        command = [self._here(word) for word in container["command"]]
        self.done[body["metadata"]["name"]] = subprocess.run(
            command, capture_output=True, text=True, check=False
        )

    def _here(self, word: str) -> str:
        return re.sub(r"/(given|out|tmp)/", rf"{self.folder}/\1/", word)

    def delete_job(self, namespace: str, name: str) -> None:
        self.deleted.append(name)

    def job(self, namespace: str, name: str) -> dict[str, Any]:
        kind = "Failed" if self.done[name].returncode else "Complete"
        return {"status": {"conditions": [{"type": kind, "status": "True"}]}}

    def pods(self, namespace: str, chosen: str = "") -> list[dict[str, Any]]:
        name = chosen.removeprefix("job-name=")
        over = {"exitCode": self.done[name].returncode, "reason": "Error"}
        return [
            {
                "metadata": {"name": f"{name}-x", "namespace": "n", "creationTimestamp": "1"},
                "spec": {"nodeName": "node1"},
                "status": {"containerStatuses": [{"name": "c", "state": {"terminated": over}}]},
            }
        ]

    def output(self, namespace: str, pod: str, container: str) -> str:
        return self.done[pod.removesuffix("-x")].stdout[: self.cut]

    def logs(self, namespace: str, pod: str, container: str) -> str:
        return "its last words"


def given(cluster: HereCluster, files: dict[str, bytes]) -> ClusterJobs:
    for one in around("n", files):
        cluster.create(one.body)
    return ClusterJobs(cluster, "n", "image")


# What it leaves has bytes that no text has, and a file below a folder.
LEAVE = (
    "sh", "-ec",
    f"mkdir -p {RESULT}/samples; cp {GIVEN}/a {RESULT}/samples/b; echo of the command",
)  # fmt: skip
BYTES = bytes(range(256)) * 300


def test_what_a_command_leaves_comes_back(tmp_path: Path) -> None:
    jobs = given(HereCluster(tmp_path), {"a": BYTES})
    words, archive = jobs.run("Point_1", LEAVE)
    assert words == "of the command"
    unpack(archive, tmp_path / "bundle")
    files = [one for one in (tmp_path / "bundle").rglob("*") if one.is_file()]
    assert files == [tmp_path / "bundle" / "samples" / "b"]
    assert files[0].read_bytes() == BYTES


def test_a_failure_is_the_commands_last_line(tmp_path: Path) -> None:
    jobs = given(HereCluster(tmp_path), {})
    with pytest.raises(HeadraceError, match=r"^chain: wrong$"):
        jobs.run("p", ("sh", "-c", "echo begun; echo 'headrace: chain: wrong' >&2; exit 2"))


def test_what_something_else_ended_is_told(tmp_path: Path) -> None:
    jobs = given(HereCluster(tmp_path), {})
    with pytest.raises(HeadraceError, match=r"exit status 137\): its last words"):
        jobs.run("p", ("sh", "-c", "echo begun; exit 137"))
    assert jobs.cluster.deleted == [jobs_module._name("p")]  # type: ignore[attr-defined]


def test_a_log_without_its_end_is_no_result(tmp_path: Path) -> None:
    """As of a node that kept less of it: never a bundle that lacks its last files."""
    for cut, why in ((10, "the end of its log is missing"), (-99, "unpacked|padding")):
        (tmp_path / str(cut)).mkdir()
        jobs = given(HereCluster(tmp_path / str(cut), cut), {"a": BYTES})
        with pytest.raises(HeadraceError, match=why):
            unpack(jobs.run("p", LEAVE)[1], tmp_path / str(cut) / "bundle")


@pytest.mark.parametrize("name", ["../b", "/b"])
def test_an_archive_writes_in_its_folder_only(tmp_path: Path, name: str) -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        tar.addfile(tarfile.TarInfo(name), io.BytesIO())
    with pytest.raises(HeadraceError, match="not a plain file"):
        unpack(data.getvalue(), tmp_path / "folder")


def test_an_archive_that_is_far_larger_unpacked_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is a thousandth of itself as it comes; of what is refused, none is written."""
    monkeypatch.setattr(jobs_module, "_UNPACKED_MOST", 16 << 20)
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for name in ("a", "b"):
            one = tarfile.TarInfo(name)
            one.size = jobs_module._UNPACKED_MOST // 2 + 1
            tar.addfile(one, Zeros(one.size))
    assert len(data.getvalue()) < 1 << 20
    with pytest.raises(HeadraceError, match="a job left more than 16777216 bytes"):
        unpack(data.getvalue(), tmp_path / "folder")
    assert not (tmp_path / "folder" / "b").exists()


class Zeros(io.RawIOBase):
    def __init__(self, size: int) -> None:
        self.left = size

    def read(self, size: int = -1) -> bytes:
        size = min(size, self.left)
        self.left -= size
        return bytes(size)


def test_two_points_never_have_one_name() -> None:
    names = {jobs_module._name(one) for one in ("a_b-1", "a-b-1", "A-b-1", "x" * 90, "x" * 91)}
    assert len(names) == 5
    assert all(len(one) <= 63 for one in names)


def test_more_than_an_object_holds_is_refused() -> None:
    with pytest.raises(BadInput, match="allowed: 1048576, as pods are given"):
        around("n", {"a": bytes((1 << 20) + 1)})
