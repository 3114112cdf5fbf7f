# SPDX-License-Identifier: Apache-2.0
"""What is served to browsers and to Prometheus: a run as it goes, and a folder of bundles."""
