# SPDX-License-Identifier: Apache-2.0
"""A way to the API server that is cut: nothing answers, and nothing is refused. An API server that
answers: objects are made, or refused in its words."""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import HeadraceError
from headrace.host import cluster

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: "{server}"}}}}]
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
    (tmp_path / "config").write_text(KUBECONFIG.format(server=f"https://127.0.0.1:{silent}"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setitem(cluster._WITHIN, "_request_timeout", (0.5, 0.5))
    begun = time.monotonic()
    with pytest.raises(HeadraceError, match=r"^Kubernetes: version: https://127\.0\.0\.1:"):
        cluster.Cluster(kubeconfig=str(tmp_path / "config")).execute("n", "p", "c", ["true"])
    assert time.monotonic() - begun < 10  # the kernel would try for two minutes


class FakeApi(ThreadingHTTPServer):
    """It notes what is asked for, and gives the answers that it has."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), FakeApiAnswer)
        self.asked: list[tuple[str, Any]] = []
        self.answer: tuple[int, Any] = (201, {})


class FakeApiAnswer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeApi

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.path, json.loads(body)))
        status, answer = self.server.answer
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    pytest.importorskip("kubernetes")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with FakeApi() as server:
        config = KUBECONFIG.format(server=f"http://127.0.0.1:{server.server_port}")
        (tmp_path / "config").write_text(config)
        threading.Thread(target=server.serve_forever).start()
        yield server
        server.shutdown()


def _signed(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate that has signed itself, and its key."""
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key


@pytest.fixture
def secured(api: FakeApi, tmp_path: Path) -> Path:
    """The API server by TLS, for who shows a certificate. Gives a kubeconfig that has all of it in
    itself, as those have that tools write."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    certificate, key = _signed(tmp_path, "server")
    user, user_key = _signed(tmp_path, "user")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(user)
    context.verify_mode = ssl.CERT_REQUIRED
    api.socket = context.wrap_socket(api.socket, server_side=True)
    inside = [base64.b64encode(one.read_bytes()).decode() for one in (certificate, user, user_key)]
    there = f'https://127.0.0.1:{api.server_port}", certificate-authority-data: "{inside[0]}'
    config = tmp_path / "secured"
    shown = f"client-certificate-data: {inside[1]}, client-key-data: {inside[2]}"
    config.write_text(KUBECONFIG.format(server=there).replace("token: t", shown))
    return config


def test_certificates_and_keys_are_in_no_file(
    secured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is killed leaves none. A second of them, and a forked one, reach the server too."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    first = cluster.Cluster(kubeconfig=str(secured))
    assert list(temporary.iterdir()) == []
    first.create(POD)
    assert list(temporary.iterdir()) == []
    held = len(list(Path("/proc/self/fd").iterdir()))
    cluster.Cluster(kubeconfig=str(secured))
    assert len(list(Path("/proc/self/fd").iterdir())) == held
    cluster.Cluster(kubeconfig=str(secured)).create(POD)
    pid = os.fork()
    if pid == 0:
        try:
            cluster.Cluster(kubeconfig=str(secured)).create(POD)
            os._exit(0)
        except BaseException:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0


POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n"}}


def test_an_object_is_sent_as_it_is(api: FakeApi, tmp_path: Path) -> None:
    """The answer is taken whatever fields of a pod it lacks: nothing of it is looked at."""
    api.answer = (201, {"kind": "Pod", "spec": {}})
    there = cluster.Cluster(kubeconfig=str(tmp_path / "config"))
    there.create(POD)
    network = {**POD, "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition"}
    claim = {**POD, "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate"}
    there.create(network)
    there.create(claim)
    networks = "/apis/k8s.cni.cncf.io/v1/namespaces/n/network-attachment-definitions"
    claims = "/apis/resource.k8s.io/v1/namespaces/n/resourceclaimtemplates"
    assert api.asked == [
        ("/api/v1/namespaces/n/pods", POD), (networks, network), (claims, claim),
    ]  # fmt: skip


def test_an_object_is_refused_in_the_servers_words(api: FakeApi, tmp_path: Path) -> None:
    api.answer = (403, {"kind": "Status", "message": "pods is\nforbidden"})
    with pytest.raises(HeadraceError, match=r"^Kubernetes: pod p: pods is forbidden$"):
        cluster.Cluster(kubeconfig=str(tmp_path / "config")).create(POD)
