#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Style and types; --fix repairs what can be repaired by itself.
set -uo pipefail

cd "$(dirname "$0")/.."
bin=.venv/bin
fix=0
[ "${1:-}" != --fix ] || fix=1
failed=()

check() {
	local name=$1
	shift
	"$@" || failed+=("$name")
}

mapfile -t c_files < <(git ls-files '*.c' '*.h')

if [ $fix = 1 ]; then
	$bin/ruff format lab tests scripts studies
	$bin/ruff check --fix lab tests scripts studies
	# C only where it was changed since the last commit: clang-format knows less of tables than we do.
	mapfile -t c_files < <(git diff --name-only --diff-filter=d HEAD -- '*.c' '*.h')
	[ ${#c_files[@]} = 0 ] || $bin/python scripts/c_style.py --fix "${c_files[@]}"
	exit
fi
check ruff $bin/ruff check lab tests scripts studies
check ruff-format $bin/ruff format --check lab tests scripts studies
check mypy $bin/mypy
check c-style $bin/python scripts/c_style.py "${c_files[@]}"
check codespell $bin/codespell --config .codespellrc
for script in scripts/*.sh .ci/run; do
	check "bash $script" bash -n "$script"
done
missing=$(git ls-files '*.c' '*.h' '*.py' '*.sh' 'meson.build' '**/meson.build' |
	xargs grep -L 'SPDX-License-Identifier:' | xargs -r -n1 sh -c '[ ! -s "$0" ] || echo "$0"')
if [ -n "$missing" ]; then
	echo "without an SPDX-License-Identifier: $missing"
	failed+=(licence)
fi

if [ ${#failed[@]} -gt 0 ]; then
	echo "lint: FAILED: ${failed[*]}"
	exit 1
fi
echo "lint: clean"
