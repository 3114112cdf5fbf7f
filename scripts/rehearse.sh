#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Rehearse what a newcomer does: a minimal Debian 12 with nothing of ours in it, a clone of this
# repository's committed state, `make demo` twice (fresh, then again) and, if asked, `make test`;
# once as root and once as an ordinary user who may use sudo. Needs root and mmdebstrap.
#
#   scripts/rehearse.sh [--as root|user|both] [--test] [--keep] [--shell]
#
# The root file system lives in a mount and PID namespace of its own: whatever a rehearsal leaves
# behind ends with it, and what it leaves in the kernel (hugepages) is reported as a failure.
set -euo pipefail

repo=$(cd "$(dirname "$0")/.." && pwd)
work=${HEADRACE_REHEARSE:-/var/tmp/headrace-rehearse}
suite=bookworm
as=both keep=0 with_test=0 shell=0

# Limits of the project's own promise, in seconds.
limit_demo_fresh=600 limit_demo_again=180 limit_test=1200

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
	--test) with_test=1 ;;
	--keep) keep=1 ;;
	--shell) shell=1 ;;
	*) die "$1: not an option; allowed: --as root|user|both, --test, --keep, --shell" ;;
	esac
	shift
done
case $as in root | user | both) ;; *) die "--as '$as': allowed are root, user, both" ;; esac
[ "$(id -u)" = 0 ] || die "needs root: it makes a file system with device nodes and enters it"
command -v mmdebstrap >/dev/null || die "mmdebstrap is missing: apt-get install mmdebstrap"

# The host's package sources, when they are for the same release; otherwise mmdebstrap's default.
host_sources() {
	grep -ls "$suite" /etc/apt/sources.list /etc/apt/sources.list.d/*.list \
		/etc/apt/sources.list.d/*.sources 2>/dev/null || true
}

make_base() {
	[ -s "$work/base.tar" ] && return
	mkdir -p "$work"
	echo "rehearse: making a minimal $suite (about a minute)"
	mapfile -t sources < <(host_sources)
	# What a newcomer has before cloning: certificates, git, make, sudo.
	mmdebstrap --quiet --variant=minbase --format=tar --include=ca-certificates,git,make,sudo \
		"$suite" "$work/base.tar.part" "${sources[@]}"
	mv "$work/base.tar.part" "$work/base.tar"
}

# The rehearsal downloads as the host does: same proxies, certificates and pip settings (mmdebstrap
# has put the sources in).
copy_network_settings() {
	local root=$1 file
	apt-config dump | grep '^Acquire::' >"$root/etc/apt/apt.conf.d/90rehearsal" || true
	for file in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do
		[ ! -e "$file" ] || cp -L "$file" "$root$file"
	done
	env | grep -E '^(PIP_|SSL_CERT_|REQUESTS_|(https?|no|all)_proxy=|(HTTPS?|NO|ALL)_PROXY=)' \
		>"$root/etc/environment" || true
}

make_root() {
	local root=$1 home=$2
	rm -rf --one-file-system "$root"
	mkdir -p "$root"
	tar -xf "$work/base.tar" -C "$root"
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

# Run a command inside, as the user, with an environment of its own.
inside() {
	local root=$1 user=$2 home=$3 command=$4
	local -a environment=()
	[ ! -s "$root/etc/environment" ] || mapfile -t environment <"$root/etc/environment"
	unshare --mount --pid --fork --kill-child --propagation private bash -euc '
		root=$1 user=$2 home=$3 command=$4
		shift 4
		# A root that is a mount point, as a real one is: `ip netns` makes it a slave.
		mount --rbind "$root" "$root"
		mount -t proc proc "$root/proc"
		mount --rbind /sys "$root/sys"
		mount --rbind /dev "$root/dev"
		mount -t tmpfs tmpfs "$root/run"
		exec chroot "$root" setpriv --reuid "$user" --regid "$user" --init-groups \
			env -i HOME="$home" USER="$user" TERM=dumb LC_ALL=C.UTF-8 "$@" \
			PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
			bash -c "cd ~/headrace && $command"
	' rehearsal "$root" "$user" "$home" "$command" "${environment[@]}"
}

failures=0
results=()

step() {
	local label=$1 limit=$2 root=$3 user=$4 home=$5 command=$6 started status=0 took
	echo "rehearse: [$user] $command"
	started=$SECONDS
	inside "$root" "$user" "$home" "$command" </dev/null || status=$?
	took=$((SECONDS - started))
	[ "$status" = 0 ] && [ "$took" -le "$limit" ] || failures=$((failures + 1))
	results+=("$(printf '%-6s %-18s status %-3s %5d s (limit %d s)' \
		"$user" "$label" "$status" "$took" "$limit")")
}

rehearse() {
	local user=$1 home=$2 root=$work/root-$1
	make_root "$root" "$home"
	if [ "$shell" = 1 ]; then
		inside "$root" "$user" "$home" "exec bash -i"
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
if [ "$pages_before" != "$pages_after" ]; then
	echo "hugepages: $pages_before before, $pages_after after: not given back"
	failures=$((failures + 1))
fi
[ "$failures" = 0 ]
