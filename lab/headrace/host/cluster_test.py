# SPDX-License-Identifier: Apache-2.0
"""A way to the API server that is cut: nothing answers, and nothing is refused."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.host import cluster

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: "https://127.0.0.1:{port}"}}}}]
users: [{{name: u, user: {{token: t}}}}]
"""


@pytest.fixture
def silent() -> Iterator[int]:
    """A port whose queue of connections is full: the kernel drops what comes further."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        waiting = []
        for _ in range(4):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(server.getsockname())
            waiting.append(one)
        yield server.getsockname()[1]
        for one in waiting:
            one.close()


def test_a_command_is_not_waited_for_where_the_way_is_cut(
    silent: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("kubernetes")
    (tmp_path / "config").write_text(KUBECONFIG.format(port=silent))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setitem(cluster._WITHIN, "_request_timeout", (0.5, 0.5))
    begun = time.monotonic()
    with pytest.raises(HeadraceError, match=r"^Kubernetes: version: https://127\.0\.0\.1:"):
        cluster.Cluster(kubeconfig=str(tmp_path / "config")).execute("n", "p", "c", ["true"])
    assert time.monotonic() - begun < 10  # the kernel would try for two minutes
