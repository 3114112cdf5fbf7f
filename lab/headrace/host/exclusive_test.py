# SPDX-License-Identifier: Apache-2.0
"""Lcores are held by one run at a time; who waits too long learns whose they are."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from headrace.__main__ import notice
from headrace.errors import HeadraceError
from headrace.host.exclusive import HeldLcores, held, holder

# Far above the CPUs of any machine, so that no run is disturbed.
CPU = 4_000_000 + os.getpid()

HOLD = """
import sys, time
from headrace.host.exclusive import HeldLcores
with HeldLcores([int(sys.argv[1])], print):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_limit_names_the_holder() -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(CPU)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline().strip() == "held"
        asked: list[int] = []
        with pytest.raises(HeadraceError) as caught, HeldLcores([CPU], asked.append, wait_s=0.5):
            pass
        assert f"lcore {CPU}" in str(caught.value)
        assert f"process {other.pid}" in str(caught.value)
        assert "--wait" in str(caught.value)
        assert asked == [CPU]
    finally:
        other.kill()
        other.wait()


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_another_users_process_is_named_as_such() -> None:
    # After the import: a checkout below /root is closed to others.
    imported = "from headrace.host.exclusive import HeldLcores\n"
    become = imported + "import os\nos.setresuid(65534, 65534, 65534)\n"
    assert imported in HOLD
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD.replace(imported, become, 1), str(CPU + 4)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline().strip() == "held"
        assert holder(CPU + 4) == f"process {other.pid} of user nobody"
    finally:
        other.kill()
        other.wait()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a PID namespace")
def test_from_inside_a_container_the_hosts_process_has_no_number() -> None:
    asked = f"from headrace.host.exclusive import holder; print(holder({CPU + 6}))"
    with HeldLcores([CPU + 6], lambda cpu: None):
        done = subprocess.run(
            ["unshare", "--pid", "--fork", sys.executable, "-c", asked],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    assert done.stdout == "a process outside of this container\n"


def test_it_is_had_when_the_other_ends() -> None:
    first = HeldLcores([CPU + 1], lambda cpu: None)
    assert holder(CPU + 1) == f"process {os.getpid()}"
    threading.Timer(0.3, first.release).start()
    began = time.monotonic()
    with HeldLcores([CPU + 1], lambda cpu: None, wait_s=20):
        assert time.monotonic() - began >= 0.2
    assert holder(CPU + 1) == "another run"  # nobody's any more, so that nobody can be named


def test_what_was_taken_is_given_back_on_failure() -> None:
    with HeldLcores([CPU + 3], lambda cpu: None):
        with (
            pytest.raises(HeadraceError),
            HeldLcores([CPU + 2, CPU + 3], lambda cpu: None, wait_s=0),
        ):
            pass
        with HeldLcores([CPU + 2], lambda cpu: None, wait_s=0):
            pass


def test_who_holds_what_is_known_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that starts tells it while its libraries are loaded."""
    mine, free = CPU + 4, CPU + 5
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {mine, free})
    assert held({mine, free}) == {} and notice("run") is None
    with HeldLcores([mine], lambda cpu: None):
        assert held({mine, free}) == {f"process {os.getpid()}": [mine]}
        assert notice("report") is None
        # What a bad spec is told is one line, whoever measures meanwhile.
        assert notice("run", "--check", "bad.yaml") is None and notice("run", "--help") is None
        text = notice("run", "good.yaml")
        assert text == f"headrace run: held for measuring: lcore {mine} by process {os.getpid()}"
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {mine})
        assert "little time to start" in (notice("run") or "")


_REFUSES = """
import atexit, sys, time
from headrace.host import slow_start
atexit.register(time.sleep, 0.5)  # an end that is slow, in which a signal would be Python's end
slow_start.AFTER_S = 0.3
slow_start.begin(lambda: "held")
{over}
time.sleep({seconds})
sys.exit("refused")
"""


@pytest.mark.parametrize(
    ("seconds", "over", "told"),
    [(0.0, "", "refused\n"), (0.5, "", "held\nrefused\n"), (0.5, "slow_start.over()", "refused\n")],
)
def test_the_notice_is_of_what_is_slow_to_start(seconds: float, over: str, told: str) -> None:
    """A refusal is the one line that there is, unless it is long in coming."""
    text = _REFUSES.format(over=over, seconds=seconds)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, told)


def test_the_notice_needs_no_library() -> None:
    heavy = (
        "import sys, headrace.__main__; "
        "print([m for m in ('typer', 'rich', 'pydantic') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
