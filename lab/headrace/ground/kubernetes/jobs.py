# SPDX-License-Identifier: Apache-2.0
"""Commands as Jobs of a cluster, each in a pod of its own, and the folder that each leaves.

Where they run and when is the cluster's to say: a pod for which no node has room waits there. What
a command left comes back by its pod's log, so that it can be had when the pod is over.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import io
import re
import tarfile
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from headrace.errors import HeadraceError
from headrace.ground.kubernetes.manifests import Body, Manifest, config_map, rights
from headrace.ground.kubernetes.waiting import Pod, ended, hopeless, name_of
from headrace.host.cluster import MANAGED, Cluster

GIVEN = "/given"  # the files, in each pod
RESULT = "/out/result"  # the folder that a command leaves
_CONTAINER = "command"
_MAP = "files"
_MEMORY_MB = 1024
_UNPACKED_MOST = 256 << 20  # bytes that a point may leave
_FILES_UNPACKED_MOST = 10_000
_NOBODY = 65534
_NAME_MOST = 40
_LOOK_S = 1.0
_MARK = "=== what it left (tar, gzip, base64) ==="  # the last one counts: base64 has none
_LEVEL = "pod-security.kubernetes.io/enforce"
_SCRIPT = (
    '"$@" >/tmp/words 2>&1; status=$?; cat /tmp/words; [ $status = 0 ] || exit $status; '
    f"echo; echo '{_MARK}'; tar -C {RESULT} -cz . | base64"
)


@dataclass(frozen=True)
class ClusterJobs:
    """Jobs of one namespace. `cluster` is asked by one process: one that forks makes its own."""

    cluster: Cluster
    namespace: str
    image: str

    def run(self, name: str, command: Sequence[str]) -> tuple[str, bytes]:
        """What a command said, and RESULT as a tar archive. Its failure is its last line."""
        job = _name(name)
        self.cluster.create(_job(job, command, self).body)
        try:
            return self._result(job)
        finally:
            # One that failed, or that nobody waits for any more, would keep others from its CPU.
            with contextlib.suppress(HeadraceError):
                self.cluster.delete_job(self.namespace, job)

    def _result(self, job: str) -> tuple[str, bytes]:
        complete = self._over(job)
        pods = self.cluster.pods(self.namespace, f"job-name={job}")
        if not pods:
            raise HeadraceError(f"Kubernetes: job {job}: its pods are gone")
        last = max(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
        words = self.cluster.output(self.namespace, name_of(last), _CONTAINER)
        if not complete:
            raise HeadraceError(_failure(self.cluster, last, words))
        return _parted(words, job)

    def _over(self, job: str) -> bool:
        """Waits for its end; whether that is a good one."""
        alone_s, began = 0.0, time.monotonic()
        while True:
            status = self.cluster.job(self.namespace, job).get("status", {})
            for one in status.get("conditions", ()):
                if one["type"] in ("Complete", "Failed") and one["status"] == "True":
                    return bool(one["type"] == "Complete")
            for pod in self.cluster.pods(self.namespace, f"job-name={job}"):
                if pod["spec"].get("nodeName") is None and self._others_run():
                    alone_s, began = 0.0, time.monotonic()  # they make room when they end
                if (why := hopeless(pod, alone_s)) is not None:
                    raise HeadraceError(why)
            time.sleep(_LOOK_S)
            alone_s = time.monotonic() - began

    def _others_run(self) -> bool:
        return any(
            pod["spec"].get("nodeName") and pod["status"].get("phase") in ("Pending", "Running")
            for pod in self.cluster.pods(self.namespace)
        )


def around(namespace: str, files: Mapping[str, bytes]) -> tuple[Manifest, ...]:
    """The namespace, and what all its Jobs are given, by name."""
    metadata = {"name": namespace, "labels": {**MANAGED, _LEVEL: "restricted"}}
    return (
        Manifest({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}),
        Manifest(config_map(namespace, _MAP, files, "the study and its files")),
    )


def _name(given: str) -> str:
    """A Job's (RFC 1123 label); two that differ in other characters have two names."""
    plain = re.sub(r"[^a-z0-9]+", "-", given.lower()).strip("-")[:_NAME_MOST]
    return f"{plain}-{hashlib.sha256(given.encode()).hexdigest()[:6]}"


def _job(name: str, command: Sequence[str], jobs: ClusterJobs) -> Manifest:
    metadata = {"name": name, "namespace": jobs.namespace, "labels": MANAGED}
    return Manifest(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": metadata,
            "spec": {
                "backoffLimit": 3,
                # A command that failed would fail again; one whose node was lost would not.
                "podFailurePolicy": {
                    "rules": [
                        {
                            "action": "Ignore",
                            "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                        },
                        {
                            "action": "FailJob",
                            "onExitCodes": {
                                "containerName": _CONTAINER, "operator": "In",
                                "values": [*range(1, 128)],
                            },
                        },
                    ]
                },
                "template": {"metadata": {"labels": MANAGED}, "spec": _pod_spec(command, jobs)},
            },
        }
    )  # fmt: skip


def _pod_spec(command: Sequence[str], jobs: ClusterJobs) -> Body:
    memory = f"{_MEMORY_MB}Mi"
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "securityContext": {"runAsNonRoot": True, "runAsUser": _NOBODY, "runAsGroup": _NOBODY},
        "containers": [
            {
                "name": _CONTAINER,
                "image": jobs.image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["sh", "-c", _SCRIPT, "sh", *command],
                "env": [{"name": "HOME", "value": "/tmp"}],
                "workingDir": "/tmp",
                "resources": {
                    "requests": {"cpu": "1", "memory": memory}, "limits": {"memory": memory},
                },
                "securityContext": {**rights(()), "readOnlyRootFilesystem": True},
                "volumeMounts": [
                    {"name": "given", "mountPath": GIVEN, "readOnly": True},
                    {"name": "out", "mountPath": str(PurePosixPath(RESULT).parent)},
                    {"name": "tmp", "mountPath": "/tmp"},
                ],
            }
        ],
        "volumes": [
            {"name": "given", "configMap": {"name": _MAP}},
            {"name": "out", "emptyDir": {}},
            {"name": "tmp", "emptyDir": {}},
        ],
    }  # fmt: skip


def _failure(cluster: Cluster, pod: Pod, words: str) -> str:
    """Its command's last line, unless something else ended it."""
    states = pod["status"].get("containerStatuses", ())
    codes = [
        one["state"]["terminated"]["exitCode"] for one in states if "terminated" in one["state"]
    ]
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    if lines and codes and 0 < codes[0] < 128:
        return lines[-1].removeprefix("headrace: ")
    return ended(cluster, pod) or f"pod {name_of(pod)}: it did not end well"


def _parted(words: str, job: str) -> tuple[str, bytes]:
    before, mark, text = words.rpartition(f"{_MARK}\n")
    try:
        if not mark:
            raise ValueError("the end of its log is missing")
        return before.rstrip("\n"), base64.b64decode(text, validate=False)
    except (ValueError, binascii.Error) as why:
        raise HeadraceError(f"Kubernetes: job {job}: what it left did not come: {why}") from None


def unpack(archive: bytes, folder: Path) -> None:
    """A tar archive's files into a new folder; nothing but files of names below it, and no more
    than a point may leave: what is packed may be a thousand times as large."""
    folder.mkdir()
    left, files = _UNPACKED_MOST, 0
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r|gz") as tar:
            for member in tar:
                left, files = left - member.size, files + 1
                if left < 0 or member.size < 0 or files > _FILES_UNPACKED_MOST:
                    raise HeadraceError(
                        f"Kubernetes: a job left more than {_UNPACKED_MOST} bytes or "
                        f"{_FILES_UNPACKED_MOST} files"
                    )
                inside = PurePosixPath(member.name)
                if member.isdir():
                    continue
                if not member.isfile() or inside.is_absolute() or ".." in inside.parts:
                    raise HeadraceError(f"{member.name}: not a plain file of its own folder")
                content = tar.extractfile(member)
                assert content is not None
                target = folder / inside
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content.read())
    except (tarfile.TarError, EOFError, zlib.error, OSError, ValueError) as why:
        raise HeadraceError(f"Kubernetes: what a job left cannot be unpacked: {why}") from None
