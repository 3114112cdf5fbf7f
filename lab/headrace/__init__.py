# SPDX-License-Identifier: Apache-2.0
"""headrace: deploy, drive, measure and explain chains of network functions."""

__version__: str


def __getattr__(name: str) -> str:
    """Asks for the version when somebody wants it: that takes a tenth of a second, and Ctrl-C is
    caught only after this package is there (__main__.py)."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import metadata

    return metadata.version("headrace")
