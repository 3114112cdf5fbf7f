# SPDX-License-Identifier: Apache-2.0
"""What pods say of themselves, which a hostile one may choose: read, or refused in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.errors import HeadraceError
from headrace.host.tool import printable

_WORDS_MOST = 100  # characters of a reason


@contextmanager
def told_by(pod: str, what: str) -> Iterator[None]:
    """What is read inside of it is of the form that the kernel gives, or the pod is named."""
    try:
        yield
    except (ValueError, ArithmeticError, LookupError) as why:
        reason = printable(str(why))[:_WORDS_MOST]
        raise HeadraceError(f"pod {pod}: {what} is not as a kernel says it: {reason}") from None
