# SPDX-License-Identifier: Apache-2.0
"""Tables that others published, and models fitted to a few of their rows."""
