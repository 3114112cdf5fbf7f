# SPDX-License-Identifier: Apache-2.0
"""The console script. Beside another run's trial a command gets one part in a hundred of a core and
needs half a minute to load its libraries: whose trial that is is said meanwhile.

What takes time is loaded in `main`, where Ctrl-C is caught."""

from __future__ import annotations

import os
import sys

from headrace.host import interrupts, slow_start

TYPE_CHECKING = False  # typing's own is there a hundredth of a second later
if TYPE_CHECKING:
    from typing import NoReturn

# Those that measure, and so will wait for these lcores; and with what they do not.
_MEASURING = frozenset({"run", "plan", "profile", "bench", "hosting", "offload", "tune"})
_LOOKING = frozenset({"--check", "--help"})


def notice(command: str, *arguments: str) -> str | None:
    """Whose lcores those are that this process may run on and will wait for, if anybody's."""
    if command not in _MEASURING or not _LOOKING.isdisjoint(arguments):
        return None
    from headrace.host.exclusive import held

    cpus = os.sched_getaffinity(0)
    holders = held(cpus)
    if not holders:
        return None
    whose = "; ".join(
        f"{'lcores' if len(on) > 1 else 'lcore'} {', '.join(map(str, on))} by {who}"
        for who, on in holders.items()
    )
    slow = ""
    if len(cpus) == sum(map(len, holders.values())):
        slow = ", which leaves this command little time to start"
    return f"headrace {command}: held for measuring: {whose}{slow}"


def main() -> NoReturn:
    interrupts.catch()
    try:
        if len(sys.argv) > 1:
            slow_start.begin(lambda: notice(*sys.argv[1:]))
        from headrace.cli import main as command

        command()
    except KeyboardInterrupt:
        interrupts.leave()


if __name__ == "__main__":
    main()
