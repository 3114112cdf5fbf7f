# SPDX-License-Identifier: Apache-2.0
"""`run --live` and `serve`, as a browser and as Prometheus see them."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from support.lab import COMMAND, environment, state_left, wait_for

pytestmark = pytest.mark.beside

LOAD = 20_000
# 64 flows from 198.18.0.1 on: 31 of them are denied.
SPEC = """
name: seen
chain:
  - acl: {rules: [{src: 198.18.0.0/27, action: deny}, {action: permit}], default: deny}
  - monitor
deployment: {DEPLOYMENT}
workload: {frame: 64, flows: 64}
measure: {loads: [20000], trial: SECONDS}
warmup: 0
"""
INLINE = "{hugepages: false, execution: pipeline}"
HOSTED = "{hugepages: false, hosting: process, execution: pipeline, network: veb}"


class Live:
    """A run and its address."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process, self.url = process, url

    def get(self, path: str = "") -> str:
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            text: str = answer.read().decode()
            return text

    def samples(self) -> dict[tuple[str, ...], float]:
        """By name and its labels' values."""
        families = text_string_to_metric_families(self.get("metrics"))
        return {(s.name, *sorted(s.labels.values())): s.value for f in families for s in f.samples}

    def sums(self, name: str, *labels: str) -> float:
        """The sum of a metric over those that have these labels' values among their own."""
        values = [v for key, v in self.samples().items() if key[0] == name and {*labels} <= {*key}]
        return sum(values)


@contextlib.contextmanager
def run(folder: Path, engine: Path, spec: str) -> Iterator[Live]:
    (folder / "spec.yaml").write_text(spec)
    with subprocess.Popen(
        [str(COMMAND), "run", "--live", ":0", "spec.yaml", "--out", "b"],
        cwd=folder, env=environment(folder, engine), stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        try:
            told = ""
            for line in process.stderr:
                told += line
                if match := re.fullmatch(r"live: (http://127\.0\.0\.1:\d+/)\n", line):
                    break
            else:
                pytest.fail(told)
            yield Live(process, match[1])
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=120)
    port = int(match[1].rsplit(":", 1)[1].strip("/"))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
    assert state_left(folder) == []


def spec(deployment: str, seconds: int = 30) -> str:
    return SPEC.replace("DEPLOYMENT", deployment[1:-1]).replace("SECONDS", str(seconds))


def frames(live: Live, view: str, count: int) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{live.url}events?view={view}", timeout=30) as events:
        parsed: list[dict[str, Any]] = []
        while len(parsed) < count:
            line = events.readline().decode()
            if line.startswith("data: "):
                parsed.append(json.loads(line[6:]))
        return parsed


def timed(live: Live) -> tuple[float, float, dict[tuple[str, ...], float]]:
    """Samples, and when they were asked for and had: they were taken between."""
    asked = time.monotonic()
    samples = live.samples()
    return asked, time.monotonic(), samples


def running(live: Live) -> bool:
    return live.sums("headrace_trial_running") == 1


@pytest.mark.parametrize("deployment", [INLINE, HOSTED], ids=["inline", "hosted"])
def test_a_run_is_seen_as_it_goes(engine_binary: Path, tmp_path: Path, deployment: str) -> None:
    with run(tmp_path, engine_binary, spec(deployment)) as live:
        assert "seen" in live.get()
        assert wait_for(lambda: running(live), 120)
        asked, had, before = timed(live)
        seen = frames(live, "", 3)
        asked_again, had_again, after = timed(live)
        least, most = (LOAD * s for s in (asked_again - had, had_again - asked))
        grown = {key: value - before.get(key, 0.0) for key, value in after.items()}

        def sums(name: str, *labels: str) -> float:
            return sum(v for k, v in grown.items() if k[0] == name and {*labels} <= {*k})

        # The load is the spec's, the share that is denied the rules'.
        came = sums("headrace_nf_packets_in_total", "acl")
        denied = sums("headrace_nf_packets_dropped_total", "acl", "denied")
        for packets in (sums("headrace_trial_packets_sent_total"), came):
            assert 0.9 * least < packets < 1.1 * most
        assert denied / came == pytest.approx(31 / 64, abs=0.02)
        assert sums("headrace_nf_packets_in_total", "monitor") == pytest.approx(
            came - denied, rel=0.02
        )
        text = seen[-1]["main"]
        assert re.search(r"acl.*denied", text, re.DOTALL) and "kpps" in text
        assert "fixed: 20.0\u202fkpps" in seen[-1]["header"]
        assert "monitor" in frames(live, "counters", 1)[0]["main"]
        assert "p99.9" in frames(live, "latency", 1)[0]["main"]
        if deployment is HOSTED:
            vnfs = {key for key in after if "vnf1.1" in key or "vnf1.2" in key}
            assert {"headrace_worker_ops_cycles_total"} <= {key[0] for key in vnfs}
        interrupt(live)


def interrupt(live: Live) -> None:
    """The last frame says so."""
    with urllib.request.urlopen(f"{live.url}events?view=", timeout=30) as events:
        assert events.readline() == b"event: frame\n"
        live.process.send_signal(signal.SIGINT)
        rest = events.read().decode()
    assert '"ended": true' in rest and "The run was interrupted" in rest
    assert live.process.wait(60) == 130


@pytest.mark.parallel
def test_a_port_that_is_taken_leaves_no_bundle(engine_binary: Path, tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(spec(INLINE))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [str(COMMAND), "run", "spec.yaml", "--live", f":{port}", "--out", "b"],
            cwd=tmp_path, env=environment(tmp_path, engine_binary), capture_output=True, text=True,
        )  # fmt: skip
    assert done.returncode == 2 and not (tmp_path / "b").exists()
    assert f"--live: got ':{port}'; cannot listen there: address already in use" in done.stderr


@contextlib.contextmanager
def prometheus(folder: Path, target: str) -> Iterator[str]:
    """A real one, that asks the target each second."""
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s}\n"
        f"scrape_configs: [{{job_name: run, static_configs: [{{targets: ['{target}']}}]}}]\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [
        "prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=tsdb",
        f"--web.listen-address={address}",
    ]  # fmt: skip
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=(folder / "log").open("w")
    ) as process:
        try:
            yield f"http://{address}"
        finally:
            process.terminate()
            process.wait(30)


def asked(server: str, expression: str) -> list[Any]:
    query = urllib.parse.urlencode({"query": expression})
    with urllib.request.urlopen(f"{server}/api/v1/query?{query}", timeout=30) as answer:
        reply = json.load(answer)
    assert reply["status"] == "success", expression
    series: list[Any] = reply["data"]["result"]
    return series


@pytest.mark.slow
def test_prometheus_has_what_the_dashboard_shows(engine_binary: Path, tmp_path: Path) -> None:
    if shutil.which("prometheus") is None:
        pytest.skip("needs Debian's package prometheus")
    with (
        run(tmp_path, engine_binary, spec(INLINE, 40)) as live,
        prometheus(tmp_path, live.url.split("/")[2]) as server,
    ):
        assert wait_for(lambda: running(live), 120)
        time.sleep(15)
        panels = json.loads(live.get("dashboard.json"))["panels"]
        expressions = [
            t["expr"].replace("$__rate_interval", "8s") for p in panels for t in p["targets"]
        ]
        empty = [expression for expression in expressions if not asked(server, expression)]
        sent = asked(server, "sum(rate(headrace_nf_packets_in_total{nf='acl'}[8s]))")
        denied = asked(server, "sum(rate(headrace_nf_packets_dropped_total{reason='denied'}[8s]))")
        up = asked(server, "min_over_time(up[8s])")
    # No search, no trial that has ended, no full link, nothing malformed.
    allowed = ("search_bound", "headrace_trials_total", "audit_failed", "_full_", "_aborted_")
    assert [e for e in empty if not any(name in e for name in allowed)] == []
    rate = float(sent[0]["value"][1])
    assert rate == pytest.approx(LOAD, rel=0.1)
    assert float(denied[0]["value"][1]) / rate == pytest.approx(31 / 64, abs=0.02)
    assert [one["value"][1] for one in up] == ["1"]
