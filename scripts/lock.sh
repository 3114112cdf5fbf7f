#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Write packaging/locked/*.txt anew: the version of every Python package, for all Pythons and
# processors, with the hashes of its files. What is there stays unless --upgrade is given.
set -euo pipefail

cd "$(dirname "$0")/.."
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
python3 -m venv "$tools"
"$tools/bin/pip" install -q uv

# lock FILE WHAT...
lock() {
	local file=packaging/locked/$1.txt
	shift
	"$tools/bin/uv" pip compile -q --universal --generate-hashes --python-version 3.11 --no-annotate \
		--no-emit-index-url --custom-compile-command scripts/lock.sh "${upgrade[@]}" -o "$file" "$@"
}

upgrade=("$@")
lock dev --all-extras pyproject.toml packaging/locked/build.in
upgrade=(-c packaging/locked/dev.txt) # the same versions in all of them
lock run pyproject.toml
lock build packaging/locked/build.in
upgrade=()
lock tools packaging/locked/tools.in
