#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Rehearse what a newcomer does: a minimal Debian with nothing of ours in it, a clone of this
# repository's committed state, `make demo` twice (fresh, then again) and, if asked, `make test`;
# once as root and once as an ordinary user who may use sudo. Needs root and mmdebstrap.
#
#   scripts/rehearse.sh [--suite bookworm|trixie] [--as root|user|both] [--test] [--keep] [--shell]
#
# What a rehearsal leaves in the kernel (hugepages) is reported as a failure.
set -euo pipefail

repo=$(cd "$(dirname "$0")/.." && pwd)
work=${HEADRACE_REHEARSE:-/var/tmp/headrace-rehearse}
suite=bookworm
as=both keep=0 with_test=0 shell=0

# Limits of the project's own promise, in seconds.
limit_demo_fresh=240 limit_demo_again=180 limit_test=1200

die() {
	echo "rehearse: $*" >&2
	exit 2
}

while [ $# -gt 0 ]; do
	case $1 in
	--as)
		as=${2:-}
		shift
		;;
	--suite)
		suite=${2:-}
		shift
		;;
	--test) with_test=1 ;;
	--keep) keep=1 ;;
	--shell) shell=1 ;;
	*) die "$1: not an option; allowed: --suite NAME, --as root|user|both, --test, --keep, --shell" ;;
	esac
	shift
done
case $as in root | user | both) ;; *) die "--as '$as': allowed are root, user, both" ;; esac
[ "$(id -u)" = 0 ] || die "needs root: it makes a file system with device nodes and enters it"
[[ $suite =~ ^[a-z]+$ ]] || die "--suite '$suite': allowed is the name of a Debian release, as trixie"
command -v mmdebstrap >/dev/null || die "mmdebstrap is missing: apt-get install mmdebstrap"
. "$repo/scripts/clean-root.sh"

make_root() {
	local root=$1 home=$2
	rm -rf --one-file-system "$root"
	mkdir -p "$root"
	tar -xf "$work/$suite.tar" -C "$root"
	copy_network_settings "$root"
	if [ "$home" != /root ]; then
		chroot "$root" useradd -m -s /bin/bash "${home##*/}"
		echo "${home##*/} ALL=(ALL) NOPASSWD: ALL" >"$root/etc/sudoers.d/rehearsal"
	fi
	git clone -q --no-hardlinks "$repo" "$root$home/headrace"
	# Real packets, rules and routes for the tests, where the host has them beside the checkout.
	[ ! -d "$repo/../shared" ] || cp -rL "$repo/../shared" "$root$home/shared"
	chroot "$root" chown -R --reference="$home" "$home/headrace"
}

failures=0
results=()

step() {
	local label=$1 limit=$2 root=$3 user=$4 home=$5 command=$6 started status=0 took
	echo "rehearse: [$user] $command"
	started=$SECONDS
	inside "$root" "$user" "$home" "cd headrace && $command" </dev/null || status=$?
	took=$((SECONDS - started))
	[ "$status" = 0 ] && [ "$took" -le "$limit" ] || failures=$((failures + 1))
	results+=("$(printf '%-6s %-18s status %-3s %5d s (limit %d s)' \
		"$user" "$label" "$status" "$took" "$limit")")
}

rehearse() {
	local user=$1 home=$2 root=$work/root-$1
	make_root "$root" "$home"
	if [ "$shell" = 1 ]; then
		inside "$root" "$user" "$home" "cd headrace && exec bash -i"
		return
	fi
	step "demo, fresh" $limit_demo_fresh "$root" "$user" "$home" "make demo"
	step "demo, again" $limit_demo_again "$root" "$user" "$home" "make demo"
	[ "$with_test" = 0 ] ||
		step "test" $limit_test "$root" "$user" "$home" "make test"
	[ "$keep" = 1 ] || rm -rf --one-file-system "$root"
}

make_base
pages_before=$(cat /proc/sys/vm/nr_hugepages)
[ "$as" = user ] || rehearse root /root
[ "$as" = root ] || rehearse dev /home/dev
pages_after=$(cat /proc/sys/vm/nr_hugepages)
[ "$shell" = 0 ] || exit 0
echo
printf '%s\n' "${results[@]}"
# Fewer than before are another run's, which ended meanwhile.
if [ "$pages_after" -gt "$pages_before" ]; then
	echo "hugepages: $pages_before before, $pages_after after: not given back"
	failures=$((failures + 1))
fi
[ "$failures" = 0 ]
