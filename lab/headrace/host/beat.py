# SPDX-License-Identifier: Apache-2.0
"""Signs of life between a lab and the agents that it started: an empty line, by which a program
knows that its user is still there, also where a cable was pulled."""

BEAT_S = 2.0  # between two of them
SILENT_S = 20.0  # that either side waits for the other's
