# SPDX-License-Identifier: Apache-2.0
"""What it costs a run to be watched: trials at the highest rate with a reader of the live page's
frames and without, in turn, on one deployment.

On its own: `python -m perf.watched STUDY [PAIRS] [SECONDS]`, in tests/.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.cli import _groups as groups
from headrace.engine.plan_document import PlanEngine
from headrace.ground.choose import Grounds
from headrace.ground.contract import Deployed, Point, Site
from headrace.host.reservation import provide
from headrace.host.state import RunState, dpdk_prefix, run_state
from headrace.host.stopwatch import Stopwatch
from headrace.live.broadcast import live
from headrace.live.scene import Onlooker
from headrace.live.web import ANY, bound
from headrace.spec import document
from headrace.spec.points import Wanted
from perf.stats import Sample, interleave, ratio

WARM_S = 1.0
STUDY = """\
name: watched
chain:
  - acl: {rules: [{action: permit}], default: deny}
  - l2fwd
deployment: {memory_mb: 512, execution: rtc}
workload: {frame: 64, flows: 4096}
measure: {max: true}
"""


@dataclass(frozen=True)
class Watching:
    slower: Sample  # throughput without a reader over that with one
    busy_ms: Sample  # more CPU that lab and engine used beside the pollers, each second
    frames: int
    first_s: float  # from asking for the page to having it, while a trial runs


def cost(study: Path, pairs: int, seconds: float) -> Watching:
    """Each pair is a trial that nobody watches and one that is."""
    with run_state() as state, _deployed(study, state) as (point, up):
        _trial(up, point, WARM_S)
        onlooker = Onlooker("watched", "")
        onlooker.deployed(point, up)
        with live(onlooker, bound(ANY, "--live")) as url:
            first = _first(up, point, url)
            used: dict[str, list[float]] = {"plain": [], "watched": []}
            frames = 0

            def plain() -> float:
                with _using(up, used["plain"]):
                    return _trial(up, point, seconds)

            def watched() -> float:
                nonlocal frames
                with _reader(url) as reader:
                    with _using(up, used["watched"]):
                        pps = _trial(up, point, seconds)
                    frames += _frames(reader)
                return pps

            samples = interleave(pairs, {"plain": plain, "watched": watched})
    more = [(w - p) / seconds * 1e3 for w, p in zip(used["watched"], used["plain"], strict=True)]
    return Watching(ratio(samples["plain"], samples["watched"]), Sample(tuple(more)), frames, first)


@contextlib.contextmanager
def _deployed(study: Path, state: RunState) -> Iterator[tuple[Point, Deployed]]:
    chosen = groups.chosen(document.load(study), Wanted())
    checked = chosen.checked(Grounds().check, all_right=False)
    point = checked.points[0]
    assert checked.memory is not None
    pages = provide(checked.memory, state).hugepages
    engine = PlanEngine(hugepages=pages, file_prefix=dpdk_prefix(state.path))
    site = Site(state, lambda text: print(text, file=sys.stderr), Stopwatch(), engine=engine)
    with point.deploy(site) as up:
        yield point, up


def _trial(up: Deployed, point: Point, seconds: float) -> float:
    up.start(point.offers[0], 0, seconds)
    up.wait()
    return up.read()[-1].figures.throughput_pps


def _first(up: Deployed, point: Point, url: str) -> float:
    """Each once before: templates are compiled then."""
    subprocess.run(["curl", "-s", url], check=True, stdout=subprocess.DEVNULL)
    up.start(point.offers[0], 0, 3.0)
    time.sleep(WARM_S)
    began = time.monotonic()
    subprocess.run(["curl", "-s", url], check=True, stdout=subprocess.DEVNULL)
    took = time.monotonic() - began
    up.wait()
    up.read()
    return took


@contextlib.contextmanager
def _reader(url: str) -> Iterator[subprocess.Popen[bytes]]:
    command = ["curl", "-sN", f"{url}events?view=&fit=2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as reader:
        time.sleep(0.3)
        try:
            yield reader
        finally:
            reader.kill()


def _frames(reader: subprocess.Popen[bytes]) -> int:
    reader.kill()
    assert reader.stdout is not None
    return reader.stdout.read().count(b"event: frame")


@contextlib.contextmanager
def _using(up: Deployed, used: list[float]) -> Iterator[None]:
    """CPU seconds of this process, and of the engine's threads that carry no packets."""
    pids = [process.pid for process in up.parts().processes]
    before = _seconds(pids)
    yield
    used.append(_seconds(pids) - before)


def _seconds(pids: list[int]) -> float:
    """schedstat's first figure: ns on a CPU."""
    own = [task for task in Path("/proc/self/task").iterdir()]
    theirs = [task for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()]
    others = [task for task in theirs if "worker" not in (task / "comm").read_text()]
    return sum(int((task / "schedstat").read_text().split()[0]) for task in (*own, *others)) / 1e9


if __name__ == "__main__":
    given = sys.argv[1:]
    seen = cost(
        Path(given[0]), int(given[1]) if given[1:] else 12, float(given[2]) if given[2:] else 2.0
    )
    for name, sample in (("not watched / watched", seen.slower), ("ms/s more", seen.busy_ms)):
        print(f"{name}: median {sample.median:.4f}, all:", [round(v, 4) for v in sample.values])
    print(f"{seen.frames} frames; first page in {seen.first_s:.2f} s")
