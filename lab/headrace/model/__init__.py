# SPDX-License-Identifier: Apache-2.0
"""Models of memory and of what a packet costs; pure functions of what was measured."""
