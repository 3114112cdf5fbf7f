# SPDX-License-Identifier: Apache-2.0
"""Profiles of network functions: cycles per packet over what they depend on."""
