# SPDX-License-Identifier: Apache-2.0
"""What a trace says against what the sockets timed, and what it says when it is overloaded.

    PYTHONPATH=tests python tests/trace/claims.py [--runs 5]      (root; seconds)

One line per claim: the goal, the figure, the verdict. Exit status 1 if one does not hold. What
tracing costs is `tests/trace/overhead.py`'s.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from traced import Traced, end_to_end

from support.netns import Lan

REPO = Path(__file__).resolve().parents[2]
GOAL = 0.02
TCP = ("--proto", "tcp", "--port", "7000")
UDP = ("--proto", "udp", "--port", "7000")


@dataclass(frozen=True)
class Claim:
    what: str
    goal: str
    figure: str
    holds: bool


Ends = tuple[str, str]


@contextmanager
def pair() -> Iterator[Ends]:
    with Lan() as lan:
        a, b = lan.namespace("a"), lan.namespace("b")
        lan.veth((a, "va"), (b, "vb"))
        lan.address(a, "va", "10.77.0.1/24")
        lan.address(b, "vb", "10.77.0.2/24")
        lan.inside(a, "ping", "-c", "1", "10.77.0.2")
        yield a, b


def timed(t: Traced, ends: Ends) -> tuple[float, float]:
    """How far the traced ways' mean is from the sockets', and the stages' sum from the ways'. Each
    message waits before it is read, so that the system calls at both ends are no 2 %."""
    a, b = ends
    p = t.begin("--sample", "1", *TCP)
    talk = t.talk((b, "10.77.0.2"), a, 200, 6)
    result = t.end(p)
    whole = end_to_end(result, "net_dev_queue", "skb_copy_datagram_iovec", "va")
    assert talk["received"] == whole["count"] == 200
    stages = sum(h["sum_ns"] for h in result["stages"])
    ways = sum(h["sum_ns"] for h in result["end_to_end"])
    return abs(whole["mean_ns"] / talk["mean_ns"] - 1), abs(stages / ways - 1)


def latency(t: Traced, ends: Ends, runs: int) -> Iterator[Claim]:
    runs_timed = [timed(t, ends) for _ in range(runs)]
    for what, values in (
        ("whole ways against the sockets' clock", [f[0] for f in runs_timed]),
        ("stages' sum against whole ways", [f[1] for f in runs_timed]),
    ):
        figure = f"{median(values):.3%} apart (median of {runs}; at most {max(values):.3%})"
        yield Claim(what, f"within {GOAL:.0%}", figure, max(values) <= GOAL)


def quiet(t: Traced, ends: Ends, runs: int) -> Iterator[Claim]:
    a, b = ends
    p = t.begin("--sample", "1", *UDP)
    exchange = t.exchange((b, "10.77.0.2"), a, [], ["--count", "2000", "--gap-ms", "0.1"])
    result = t.end(p)
    figure = (
        f"{result['packets']['sampled']} of {exchange['sent']} seen, {result['lost_total']} lost"
    )
    holds = result["packets"]["sampled"] == exchange["sent"] and not result["lost_total"]
    yield Claim("no overload", "all followed, 0 lost", figure, holds)


def overloaded(t: Traced, ends: Ends, runs: int) -> Iterator[Claim]:
    """Each place where events can be lost, made too small: what is missing is what is counted."""
    a, b = ends
    p = t.begin("--sample", "1", "--packets", "64", *UDP)
    exchange = t.exchange((b, "10.77.0.2"), a, ["--delay-ms", "1"], ["--count", "1000"])
    result = t.end(p)
    seen, lost = result["packets"]["sampled"], result["lost"]["table"]
    figure = f"{seen} followed and {lost} lost of {exchange['sent']}"
    yield Claim("table of packets full", "lost > 0, none silent", figure,
                lost > 0 and seen + lost == exchange["sent"])  # fmt: skip
    p = t.begin("--sample", "1", "--histograms", "16", *UDP)
    t.exchange((b, "10.77.0.2"), a, [], ["--count", "500"])
    p_tcp = t.begin("--sample", "1", "--histograms", "16")
    t.tcp((b, "10.77.0.2"), a, "--seconds", "0.3")
    t.tcp((a, "10.77.0.1"), b, "--seconds", "0.3")
    t.exchange((a, "10.77.0.1"), b, ["--buffer", "4096", "--delay-ms", "1"], ["--count", "300"])
    result, other = t.end(p), t.end(p_tcp)
    lost = result["lost"]["histogram"] + other["lost"]["histogram"]
    yield Claim("no histogram left", "lost > 0", f"{lost} latencies lost", lost > 0)
    p = t.begin("--sample", "1", "--slow-us", "0", "--paths-max", "1000000")
    p.send_signal(signal.SIGSTOP)  # it cannot read them, as on a machine without a moment for it
    t.exchange((b, "10.77.0.2"), a, [], ["--count", "20000"])
    t.tcp((b, "10.77.0.2"), a, "--seconds", "1")
    p.send_signal(signal.SIGCONT)
    result = t.end(p)
    lost, paths = result["lost"]["paths"], len(result["paths"])
    yield Claim("paths that nobody reads", "lost > 0", f"{paths} emitted, {lost} lost",
                lost > 0)  # fmt: skip


CLAIMS: tuple[Callable[[Traced, Ends, int], Iterator[Claim]], ...] = (latency, quiet, overloaded)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--runs", type=int, default=5, help="of what is timed; default 5")
    a = p.parse_args()
    tracer = Path(os.environ.get("HEADRACE_TRACE") or REPO / "build/trace/headrace-trace")
    if not os.access(tracer, os.X_OK):
        sys.exit(f"{tracer}: not there; build it with `make setup`, or name it in HEADRACE_TRACE")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        t = Traced(tracer, Path(folder))
        try:
            for group in CLAIMS:
                with pair() as ends:
                    for c in group(t, ends, a.runs):
                        failed |= not c.holds
                        verdict = "yes" if c.holds else "NO"
                        print(f"{c.what}: goal {c.goal}; {c.figure}: {verdict}", flush=True)
        finally:
            for process in t.processes:
                if process.poll() is None:
                    subprocess.Popen.kill(process)
                    process.wait()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
