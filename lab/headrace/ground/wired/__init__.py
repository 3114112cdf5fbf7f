# SPDX-License-Identifier: Apache-2.0
"""Chains between ports: the tester at one end of the wires, the device under test at the other."""
