# SPDX-License-Identifier: Apache-2.0
#
# Clean roots of a Debian release, for scripts that source this: `suite` is the release, `work` the
# folder for root file systems. A root lives in a mount and PID namespace of its own: whatever a
# command leaves behind in it ends with it.

# The host's sources of Debian's own packages, when they are for the same release; otherwise
# mmdebstrap's default. Those of others that the host has (docker's, a cloud's) belong in no clean
# root, and the image that is published is one.
host_sources() {
	grep -ls "$suite" /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources 2>/dev/null || true
}

make_base() {
	[ -s "$work/$suite.tar" ] && return
	mkdir -p "$work"
	echo "making a minimal $suite (about a minute)"
	mapfile -t sources < <(host_sources)
	# What a newcomer has before cloning: certificates, git, make, sudo.
	mmdebstrap --quiet --variant=minbase --format=tar --include=ca-certificates,git,make,sudo \
		"$suite" "$work/$suite.tar.part" "${sources[@]}"
	mv "$work/$suite.tar.part" "$work/$suite.tar"
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

# Run a command inside, as the user, from its home, with an environment of its own.
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
		mount -t tmpfs -o mode=755 tmpfs "$root/run" # as on any Debian: only root makes folders in it
		exec chroot "$root" setpriv --reuid "$user" --regid "$user" --init-groups \
			env -i HOME="$home" USER="$user" TERM=dumb LC_ALL=C.UTF-8 "$@" \
			PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
			bash -c "cd && $command"
	' rehearsal "$root" "$user" "$home" "$command" "${environment[@]}"
}
