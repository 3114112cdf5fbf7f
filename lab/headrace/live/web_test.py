# SPDX-License-Identifier: Apache-2.0
"""Who may ask, where it listens, and that nothing of it is left."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from headrace.errors import BadInput
from headrace.live import broadcast, connections
from headrace.live.broadcast import live
from headrace.live.bundles import FigureKey, FigureRow, Folder, Listed
from headrace.live.library import _before
from headrace.live.scene import Onlooker
from headrace.live.shelf import routes
from headrace.live.web import ANY, Serving, application, bound, may_ask, url_of
from headrace.record.testdata import make_bundle


@pytest.mark.parametrize(
    ("host", "may"),
    [
        ("127.0.0.1:8470", True),
        ("localhost:8470", True),
        ("[::1]:8470", True),
        (socket.gethostname(), True),
        ("evil.example:8470", False),
        ("127.0.0.1.evil.example", False),
        ("", False),
    ],
)
def test_another_sites_name_is_turned_away(host: str, may: bool) -> None:
    assert may_ask(host) is may


def test_a_bundles_links_lead_nowhere(tmp_path: Path) -> None:
    """Whoever may write to the folder would have what the reader may read."""
    (tmp_path / "secret").write_text("secret")
    make_bundle(tmp_path / "elsewhere" / "b")
    folder = tmp_path / "runs"
    (make_bundle(folder / "page") / "report.html").symlink_to(tmp_path / "secret")
    os.mkfifo(make_bundle(folder / "pipe") / "report.html")
    (folder / "whole").symlink_to(tmp_path / "elsewhere" / "b")
    with Serving(application(routes(Folder(folder))), bound(":0", "--at")) as serving:
        url = url_of(serving.listening)
        for name in ("page", "pipe"):
            status, text = ask(url, f"/report/{name}")
            assert status == 422 and "report.html: is no regular file" in text
        assert ask(url, "/report/whole")[0] == 404


@pytest.mark.parametrize("address", ["x", ":99999", "http://127.0.0.1:80", "no.such.invalid:0"])
def test_a_bad_address_names_what_is_allowed(address: str) -> None:
    with pytest.raises(BadInput, match=rf"--live: got '{address}'.*allowed: "):
        bound(address, "--live").close()


def test_a_taken_port_is_said_but_where_any_will_do() -> None:
    with bound(":0", "--live") as first:
        port = first.getsockname()[1]
        with pytest.raises(BadInput, match=f"--live: got ':{port}'; cannot listen there: "):
            bound(f":{port}", "--live")
        assert first.getsockname()[0] == "127.0.0.1"
    with bound(ANY, "--live") as one, bound(ANY, "--live") as other:
        assert one.getsockname() != other.getsockname()


def ask(url: str, path: str = "/", method: str = "GET", host: str | None = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection(url.removeprefix("http://").rstrip("/"), timeout=10)
    try:
        connection.request(method, path, headers={"Host": host} if host else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_nothing_is_left_when_it_ends_with_browsers_connected() -> None:
    before = set(threading.enumerate())
    onlooker = Onlooker("mine", "runs/mine")
    with live(onlooker, bound(":0", "--live")) as url:
        assert "mine" in ask(url)[1]
        host, port = url.removeprefix("http://").rstrip("/").split(":")
        watcher = socket.create_connection((host, int(port)), timeout=10)
        watcher.sendall(f"GET /events?view= HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        text = watcher.recv(65536).decode()
        onlooker.end("The run has ended.")
    while chunk := watcher.recv(65536):
        text += chunk.decode()
    watcher.close()
    assert "text/event-stream" in text and "The run has ended." in text
    assert '"ended": true' in text
    assert set(threading.enumerate()) == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=1)


def test_it_can_only_be_read_and_only_by_its_own_name() -> None:
    with live(Onlooker("mine", "b"), bound(":0", "--live")) as url:
        assert ask(url, host="evil.example")[0] == 421
        assert ask(url, "/metrics", host="evil.example")[0] == 421
        assert [ask(url, method=method)[0] for method in ("POST", "PUT", "DELETE")] == [405] * 3
        assert ask(url, "/nothing")[0] == 404 and ask(url, "/docs")[0] == 404


def test_a_folders_bundles_are_listed_searched_compared_and_linked(tmp_path: Path) -> None:
    for name in ("first", "second & last"):
        make_bundle(tmp_path / name)
        (tmp_path / name / "report.html").write_text(f"report of {name}")
    (tmp_path / "no-bundle").mkdir()
    (tmp_path / "secret.html").write_text("secret")
    with Serving(application(routes(Folder(tmp_path))), bound(":0", "--at")) as serving:
        url = url_of(serving.listening)
        page = ask(url)[1]
        assert "/report/second%20%26%20last" in page and "no-bundle" not in page
        assert ask(url, "/report/second%20%26%20last") == (200, "report of second & last")
        assert "Trends" in page and "ndr" in page
        assert "pipeline" not in ask(url, "/?q=hybrid+ndr")[1].split("Figures</h2>")[1]
        assert "No bundle has such a figure" in ask(url, "/?q=%27%3B+drop")[1]
        compared = ask(url, "/compare?a=first&b=second+%26+last")
        assert compared[0] == 200 and "within the spread" in compared[1]
        for path in ("/report/..%2Fsecret.html", "/report/secret.html", "/compare?a=first&b=../x"):
            assert ask(url, path)[0] == 404, path


def test_a_bundle_is_compared_with_the_last_of_its_kind() -> None:
    """Two runs of one study with another's between them."""
    key = FigureKey("edge", "64B", "forward", "rtc", "ndr", None)
    keys = {
        "new": key,
        "other": replace(key, chain="x"),
        "old": key,
        "hybrid": replace(key, execution="hybrid"),
    }
    rows = [FigureRow(b, k, 1.0, 1.0, 1.0, 0.0, None, "ok", 1) for b, k in keys.items()]
    listed = [Listed(name, "", "complete", True) for name in (*keys, "predicted")]
    assert _before(listed, rows) == {"new": "old"}


def test_a_damaged_bundle_hides_no_other(tmp_path: Path) -> None:
    for name in ("whole", "torn", "typed", "gone"):
        make_bundle(tmp_path / name)
    torn = tmp_path / "torn" / "results.parquet"
    torn.write_bytes(torn.read_bytes()[:-100])
    duckdb.sql("SELECT 'x' AS chain, 1 AS n").write_parquet(str(tmp_path / "typed/results.parquet"))
    (tmp_path / "gone" / "results.parquet").unlink()
    make_bundle(tmp_path / "named").rename(tmp_path / os.fsdecode(b"named\xff"))
    with Serving(application(routes(Folder(tmp_path))), bound(":0", "--at")) as serving:
        status, page = ask(url_of(serving.listening))
    assert status == 200
    whole, *_ = page.split("Figures</h2>")[1:]
    assert "/report/whole" in whole
    bundles = page.split("Figures</h2>")[0]
    for name, why in (
        ("torn", "No magic bytes found at end of file"),
        ("typed", "Referenced column"),
        ("gone", "has neither results.parquet nor results.jsonl"),
    ):
        assert name not in whole and name in bundles and why in bundles, name
    assert "4 bundles" in page


def test_many_that_ask_nothing_keep_nobody_out() -> None:
    with live(Onlooker("mine", "b"), bound(":0", "--live")) as url, contextlib.ExitStack() as held:
        host, port = url.removeprefix("http://").rstrip("/").split(":")
        before = len(list(Path("/proc/self/fd").iterdir()))
        idle = [
            held.enter_context(socket.create_connection((host, int(port)), timeout=10))
            for _ in range(200)
        ]
        for one in idle[::2]:
            with contextlib.suppress(OSError):  # it has given way already
                one.sendall(b"GET / HT")
        assert ask(url)[0] == 200
        ours = len(list(Path("/proc/self/fd").iterdir())) - before - len(idle)
        assert ours <= connections.MOST + 4
        assert ask(url)[0] == 200


def test_a_reader_has_the_lab_draw_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """It measures meanwhile: who asks without a pause gets the same page again."""
    drawn: list[str] = []
    draw = broadcast.Broadcast._render

    def counted(self: broadcast.Broadcast, *what: Any) -> str:
        drawn.append("page")
        return draw(self, *what)

    monkeypatch.setattr(broadcast.Broadcast, "_render", counted)
    with live(Onlooker("mine", "b"), bound(":0", "--live")) as url:
        drawn.clear()
        began = time.monotonic()
        assert [ask(url)[0] for _ in range(100)] == [200] * 100
        assert len(drawn) <= 1 + (time.monotonic() - began) / broadcast.AGAIN_S


def test_who_asks_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also who asks a byte at a time; who waits for an answer stays."""
    monkeypatch.setattr(connections, "IDLE_S", 0.5)
    with live(Onlooker("mine", "b"), bound(":0", "--live")) as url:
        host, port = url.removeprefix("http://").rstrip("/").split(":")
        silent, slow, watcher = (
            socket.create_connection((host, int(port)), timeout=10) for _ in range(3)
        )
        slow.sendall(b"GET / HT")
        watcher.sendall(f"GET /events?view= HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert b"text/event-stream" in watcher.recv(65536)
        for one in (silent, slow):
            with contextlib.suppress(ConnectionResetError):
                assert one.recv(1) == b""
        time.sleep(1.5)
        watcher.settimeout(0.1)
        with contextlib.suppress(TimeoutError):
            while True:
                assert watcher.recv(65536) != b""
        for one in (silent, slow, watcher):
            one.close()


def test_a_search_has_so_many_words(tmp_path: Path) -> None:
    """A thousand of them took a minute of the machine's CPUs, and a reader can ask for more."""
    make_bundle(tmp_path / "b")
    with Serving(application(routes(Folder(tmp_path))), bound(":0", "--at")) as serving:
        url, began = url_of(serving.listening), time.monotonic()
        status, text = ask(url, f"/?q={'+'.join(['a'] * 1000)}")
        assert (status, text) == (422, "q: 1000 words; allowed: 16")
        assert time.monotonic() - began < 10
        assert ask(url, f"/?q={'+'.join(['a'] * 16)}")[0] == 200
