#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# All tests, whatever fails on the way; at the end what failed and each tool's own closing line.
#
#   scripts/test.sh [SECONDS PER FUZZ TARGET, default 5]
set -uo pipefail

cd "$(dirname "$0")/.."
fuzz_s=${1:-5}
# Tests of the command line start it hundreds of times.
unset PYTHONDONTWRITEBYTECODE
mkdir -p .setup
failed=()
closing=()

run() {
	local name=$1 log=.setup/test-$1.log
	shift
	echo "== $name"
	"$@" 2>&1 | tee "$log"
	[ "${PIPESTATUS[0]}" = 0 ] || failed+=("$name")
}

last_line() {
	grep -aE "$2" ".setup/test-$1.log" | tail -n 1
}

# Also of the tests that were run again.
meson_closing() {
	echo "$1:$(grep -aE '^(Ok|Expected Fail|Fail|Unexpected Pass|Skipped|Timeout):' \
		".setup/test-$2.log" | tr -s ' \n' ' ' | sed 's/^/ /')"
}

run meson meson test -C build --print-errorlogs --no-rebuild
closing+=("$(meson_closing "meson test" meson)")

# Machines that others share stop for whole ticks now and then, and the kernel under many tests goes
# its own pace: what fails is run again. It is told: a second closing line here, "rerun" in pytest's.
if [ ${#failed[@]} -gt 0 ]; then
	mapfile -t names < <(sed -nE 's|^ *[0-9]+/[0-9]+ (\S+) +(FAIL\|TIMEOUT).*|\1|p' .setup/test-meson.log)
	if [ ${#names[@]} -gt 0 ]; then
		failed=()
		run meson-again meson test -C build --print-errorlogs --no-rebuild "${names[@]}"
		closing+=("$(meson_closing "meson test, ${names[*]} again" meson-again)")
	fi
fi

pytest_end='(passed|failed|error|no tests ran).* in '
again=(.venv/bin/python -m pytest --reruns 2 --reruns-delay 3 -r aR)

# Those that need no lcore have what the others leave of the CPUs, which is half of them: they run
# at the lowest priority, and the fuzz targets are built before them. By `set -m` they are a process
# group, which ends with this script.
set -m
# shellcheck disable=SC2016
nice -n 19 bash -c 'scripts/fuzz.sh --build; exec "$@"' bash \
	"${again[@]}" -m parallel -n "$(nproc)" --maxprocesses=8 --dist=loadfile \
	>.setup/test-pytest-parallel.log 2>&1 &
parallel=$!
set +m
trap 'kill -- -$parallel 2>/dev/null' EXIT
trap 'exit 130' INT TERM

# Meanwhile, one at a time, those that need lcores, namespaces or devices and hold no figure of
# speed or time against another.
mapfile -t beside < <(grep -rl --include='test_*.py' 'pytest.mark.beside' tests)
run pytest-beside "${again[@]}" -m "beside and not parallel" "${beside[@]}"

echo "== pytest-parallel"
wait $parallel || failed+=(pytest-parallel)
trap - EXIT
cat .setup/test-pytest-parallel.log
closing+=("pytest, in parallel: $(last_line pytest-parallel "$pytest_end")")
closing+=("pytest, beside them: $(last_line pytest-beside "$pytest_end")")

# The rest have the machine to themselves. Of the lab's own tests few are among them: the other
# files are not read again for them.
mapfile -t alone < <(grep -rl --include='*_test.py' 'pytest.mark.alone' lab)
run pytest "${again[@]}" -m "not parallel and not beside" "${alone[@]}" tests
closing+=("pytest, alone: $(last_line pytest "$pytest_end")")

# What needs namespaces or devices, for a user who may become root. No files of root's remain.
if [ "$(id -u)" != 0 ] && sudo -n true 2>/dev/null; then
	run pytest-root sudo -n env PYTHONDONTWRITEBYTECODE=1 HOME=/root \
		"HEADRACE_SHARED=${HEADRACE_SHARED:-}" \
		"${again[@]}" -p no:cacheprovider -m needs_root tests
	closing+=("pytest as root: $(last_line pytest-root "$pytest_end")")
fi

run fuzz scripts/fuzz.sh "$fuzz_s"
closing+=("fuzz: $(tail -n 1 .setup/test-fuzz.log)")

# A log is often read from its end: what failed is named there, with its last words.
if [[ " ${failed[*]} " == *" meson"* ]]; then
	echo "== what failed of meson"
	grep -aE '^ *[0-9]+/[0-9]+ .* (FAIL|TIMEOUT|ERROR|INTERRUPT)' .setup/test-meson.log
	sed -n '/^Summary of Failures/q; /^=.* [0-9]*\/[0-9]* =/,$p' .setup/test-meson.log |
		grep -a -m 60 -iE 'error|fail|warning|assert|0x|sanitizer|==' || true
fi

if [[ " ${failed[*]} " == *" pytest"* ]]; then
	echo "== what failed of pytest"
	grep -ahE '^(FAILED|ERROR) ' .setup/test-pytest*.log | cut -c 1-400 | sort -u | head -n 40
fi
if [[ " ${failed[*]} " == *" fuzz"* && -s build-fuzz/failed ]]; then
	echo "== what failed of fuzz"
	while read -r name; do
		echo "$name"
		# What it met and where, the input's last words: enough to make it again.
		grep -aE -A 12 '==[0-9]+==|runtime error|Test unit written|^Base64' "build-fuzz/$name.log" | head -n 40
	done <build-fuzz/failed
fi

echo "== summary"
printf '%s\n' "${closing[@]}"
if [ ${#failed[@]} -gt 0 ]; then
	echo "FAILED: ${failed[*]}"
	exit 1
fi
