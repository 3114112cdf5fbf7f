# SPDX-License-Identifier: Apache-2.0
"""What `headrace tune` is asked to try."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from headrace.spec.base import Spec
from headrace.tune.bulk import MESSAGE_MAX

Protocol = Literal["tcp", "udp"]
PROTOCOLS: tuple[Protocol, ...] = ("tcp", "udp")
BASELINE = "as found"


class Ends(Spec):
    """Namespaces of the user's own, as named on the command line."""

    sender: str
    receiver: str
    bridge: str = ""  # the bridge's; this one unless said


class Wish(Spec):
    """A bundle of `headrace tune` has it as its spec."""

    advice: tuple[str, ...]
    protocols: tuple[Protocol, ...] = PROTOCOLS
    rounds: Annotated[int, Field(ge=1, le=100)] = 5
    seconds: Annotated[float, Field(ge=0.2, le=600)] = 1.0
    message_bytes: Annotated[int, Field(ge=64, le=MESSAGE_MAX)] = MESSAGE_MAX
    ends: Ends | None = None  # None: a path is made
