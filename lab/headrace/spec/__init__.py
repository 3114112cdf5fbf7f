# SPDX-License-Identifier: Apache-2.0
"""What users write: chain, deployment, workload, measurement, study. Frozen and strict."""
