# SPDX-License-Identifier: Apache-2.0
"""Puts an experiment on a real server: plan, placement, memory, the engine's process."""
