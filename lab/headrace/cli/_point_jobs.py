# SPDX-License-Identifier: Apache-2.0
"""`headrace campaign --pods`: each predicted point as a Job of a Kubernetes cluster, which runs
`headrace run` in headrace's own image; its bundle comes back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace import __version__
from headrace.errors import HeadraceError
from headrace.ground.kubernetes.jobs import GIVEN, RESULT, ClusterJobs, around, unpack
from headrace.ground.kubernetes.manifests import file_key
from headrace.ground.kubernetes.nodes import ClusterNodes
from headrace.ground.kubernetes.pods import namespace_of
from headrace.ground.kubernetes.waiting import make
from headrace.host.cluster import Cluster
from headrace.host.cluster_owned import owned
from headrace.host.ledger import Ledger
from headrace.host.state import run_state
from headrace.host.tree import remove_tree
from headrace.record.bundle import Bundle
from headrace.spec.document import Document
from headrace.spec.kubernetes import Kubernetes

_SPEC = "spec.yaml"


@dataclass(frozen=True)
class PointJobs:
    """The namespace of a campaign, and what its Jobs are told of the study."""

    namespace: str
    image: str
    options: Sequence[str]  # of `headrace run`, the same for all points

    def predict(self, point: str | None, bundle: Path) -> None:
        """In a process of its own, whose output is the point's log."""
        chosen = () if point is None else ("--point", point)
        command = ("headrace", "run", f"{GIVEN}/{_SPEC}", *self.options, *chosen, "--out", RESULT)
        jobs = ClusterJobs(Cluster(), self.namespace, self.image)
        words, archive = jobs.run(bundle.name, command)
        print(words)
        whole = bundle.with_name(f".{bundle.name}.part")
        remove_tree(whole)
        try:
            unpack(archive, whole)
            _same_version(whole, self.image)
            whole.rename(bundle)
        finally:
            remove_tree(whole)


def _same_version(bundle: Path, image: str) -> None:
    theirs = Bundle(bundle).status.headrace
    if theirs != __version__:
        raise HeadraceError(
            f"--pods {image}: is headrace {theirs}; allowed: {__version__}, as here"
        )


def reached() -> ClusterNodes:
    """The cluster's nodes; HeadraceError where there is none, or none of it is ready."""
    nodes = ClusterNodes(Kubernetes())
    nodes.of(0)
    return nodes


@contextmanager
def point_jobs(
    doc: Document,
    inputs: Mapping[str, Path],
    image: str,
    server: str | None,
    nodes: ClusterNodes,
) -> Iterator[tuple[PointJobs, int]]:
    """For as long as a campaign runs; and how many of its Jobs the cluster has CPUs for. What a
    campaign that was killed left there is removed by the next run, or by `headrace clean`."""
    cluster = Cluster()
    files = {_SPEC: doc.text().encode()}
    options = [] if server is None else ["--on", _named(server, inputs)]
    for number, (name, file) in enumerate(inputs.items()):
        key = file_key(number, file)
        files[key] = file.read_bytes()
        options += ["--input", f"{name}={GIVEN}/{key}"]
    namespace = namespace_of(str(doc.data["name"]))
    objects = around(namespace, files)
    with run_state() as state:
        Ledger(state.path).note("cluster", owned(cluster, namespace, None))
        make(cluster, objects)
        yield PointJobs(namespace, image, tuple(options)), nodes.cpus


def _named(server: str, inputs: Mapping[str, Path]) -> str:
    """A file by the name that its copy goes by."""
    whole = str(Path(server).resolve())
    return whole if whole in inputs else server
