# SPDX-License-Identifier: Apache-2.0
"""headrace: deploy, drive, measure and explain chains of network functions."""

__version__ = "0.1.0"
