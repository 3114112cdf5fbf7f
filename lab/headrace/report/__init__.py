# SPDX-License-Identifier: Apache-2.0
"""From a run bundle to what a person reads: terminal tables and one HTML page."""
