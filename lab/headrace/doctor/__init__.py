# SPDX-License-Identifier: Apache-2.0
"""What this machine can do for headrace, found by trying where a file alone would not tell."""
