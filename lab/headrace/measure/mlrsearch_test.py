# SPDX-License-Identifier: Apache-2.0
"""The library is as its authors load it, and what it would take longer for is left out."""

from __future__ import annotations

import inspect
import subprocess
import sys

from headrace.measure.mlrsearch import Config, frames

# Whoever finds the source of a frame has it in this cache afterwards.
LOADED = """
import inspect, linecache
whole = inspect.stack
import headrace.measure.mlrsearch
assert inspect.stack is whole
print(len(linecache.cache))
"""


def test_nobodys_source_is_read() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == 0


def test_frames_are_those_of_inspect() -> None:
    def told(infos: list[inspect.FrameInfo]) -> list[tuple[str, str]]:
        return [(one.filename, one.function) for one in infos]

    assert told(frames()) == told(inspect.stack(0))
    assert frames()[0].frame is inspect.currentframe()


def test_what_the_library_looks_for_is_found() -> None:
    """Its defaults are what it asks the frames for."""
    config = Config()
    assert (config.min_load, config.search_duration_max) == (9001.0, 1200.0)
    assert config.max_load > config.min_load
