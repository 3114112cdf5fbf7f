#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What runs in processes of their own (`python3 -m headrace...`) finds the packages by this, too.
PYTHONPATH=/usr/lib/headrace exec /usr/bin/python3 -m headrace "$@"
