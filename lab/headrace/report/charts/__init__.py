# SPDX-License-Identifier: Apache-2.0
"""Pictures as inline SVG. Colours are CSS variables of the page, so that both themes work."""
