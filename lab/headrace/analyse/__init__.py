# SPDX-License-Identifier: Apache-2.0
"""What results mean: the narrowest part, the rules of `explain`, capacity, comparison."""
