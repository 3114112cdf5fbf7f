# SPDX-License-Identifier: Apache-2.0
"""headrace: deploy, drive, measure and explain chains of network functions."""

from importlib import metadata

__version__ = metadata.version("headrace")
