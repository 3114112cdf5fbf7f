# SPDX-License-Identifier: Apache-2.0
"""Pods that answer a command with what nobody asked for: by an API server of this test's own, which
is what the official client talks to."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.host import cluster
from headrace.host.cluster_stream import STDERR, STDOUT

pytest.importorskip("kubernetes")

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: u, user: {{token: t}}}}]
"""
ACCEPT = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455
STATUS = 3  # channel
ENDED = json.dumps({"status": "Success"}).encode()
FAILED = json.dumps({"status": "Failure", "details": {"causes": [{"message": "7"}]}}).encode()

Send = Callable[[int, bytes], None]


def frame(operation: int, data: bytes) -> bytes:
    if len(data) < 126:
        size = bytes([len(data)])
    elif len(data) < 1 << 16:
        size = bytes([126]) + len(data).to_bytes(2, "big")
    else:
        size = bytes([127]) + len(data).to_bytes(8, "big")
    return bytes([0x80 | operation]) + size + data


class Server(ThreadingHTTPServer):
    daemon_threads = True
    pod: Callable[[Send], None]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        if "/exec" not in self.path:
            body = json.dumps(
                {"major": "1", "minor": "33", "gitVersion": "v1.33.1", "gitCommit": "c",
                 "gitTreeState": "clean", "buildDate": "d", "goVersion": "g", "compiler": "gc",
                 "platform": "linux/amd64"}
            ).encode()  # fmt: skip
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        key = self.headers["Sec-WebSocket-Key"] + ACCEPT
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        accepted = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        self.send_header("Sec-WebSocket-Accept", accepted)
        self.send_header("Sec-WebSocket-Protocol", "v5.channel.k8s.io")
        self.end_headers()

        def send(channel: int, data: bytes) -> None:
            self.wfile.write(frame(2, bytes([channel]) + data))

        try:
            self.server.pod(send)
            self.wfile.write(frame(8, b"\x03\xe8"))
        except OSError:
            pass  # the lab has had enough
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as one:
        threading.Thread(target=one.serve_forever, daemon=True).start()
        (tmp_path / "config").write_text(KUBECONFIG.format(port=one.server_address[1]))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        yield one
        one.shutdown()


def execute(timeout_s: float = 60) -> tuple[int, str, str]:
    done = cluster.Cluster().execute("n", "p", "c", ["cat"], timeout_s=timeout_s)
    return done.returncode, done.stdout, done.stderr


def test_what_a_command_said_comes_whole(server: Server) -> None:
    """Characters may be cut by frames."""
    text = "ä" * 100_000

    def pod(send: Send) -> None:
        data = text.encode()
        for at in range(0, len(data), 32_767):
            send(STDOUT, data[at : at + 32_767])
        send(STDERR, b"oh")
        send(STATUS, FAILED)

    server.pod = pod
    assert execute() == (7, text, "oh")


@pytest.mark.parametrize("size", [1, 32_768])
def test_a_command_that_writes_without_end_is_ended(
    server: Server, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The frames of a flood follow each other without a pause."""
    monkeypatch.setattr(cluster, "_OUTPUT_MOST", 1 << 20 if size > 1 else 1 << 14)

    def pod(send: Send) -> None:
        while True:
            send(STDOUT, b"x" * size)

    server.pod = pod
    begun = time.monotonic()
    with pytest.raises(HeadraceError, match=r"^p: cat wrote more than \d+ bytes$"):
        execute()
    assert time.monotonic() - begun < 30


@pytest.mark.alone
def test_a_command_that_says_little_for_ever_is_ended(server: Server) -> None:
    def pod(send: Send) -> None:
        while True:
            send(STDERR, b".")
            time.sleep(0.01)

    server.pod = pod
    begun = time.monotonic()
    with pytest.raises(HeadraceError, match=r"^p: cat did not end in 1 s$"):
        execute(timeout_s=1)
    assert time.monotonic() - begun < 3.9  # 4: the library waits for three seconds as it closes


@pytest.mark.parametrize(
    "status", [b"", b"x", b"[]", b'"Success"', b"{}", b'{"status": "Failure"}', b"[" * 100_000]
)
def test_a_status_that_is_none_is_a_connection_that_was_lost(server: Server, status: bytes) -> None:
    server.pod = lambda send: send(STATUS, status)
    with pytest.raises(HeadraceError, match=r"the connection to the API server was lost$"):
        execute()


def test_unknown_channels_are_no_output(server: Server) -> None:
    def pod(send: Send) -> None:
        for channel in (0, 4, 200, 255):
            send(channel, b"x" * 1000)
        send(STDOUT, b"")
        send(STATUS, ENDED)

    server.pod = pod
    assert execute() == (0, "", "")
