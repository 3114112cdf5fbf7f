#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Build what is published from a commit of this checkout, the last one unless HEADRACE_RELEASE_OF names
# another, in a clean Debian 12: a wheel, a .deb for Debian 12 and one for 13, an image (OCI archive), and
# their checksums, in dist/. Needs root, mmdebstrap and podman. Two builds of one commit are to give the same bytes as long as Debian's
# packages are the same: all times are the commit's, Python packages are those of packaging/locked/run.txt.
#
#   scripts/release.sh [--twice] [DIR]    --twice: builds again, from nothing and in another folder,
#                                         and compares
set -euo pipefail

repo=$(cd "$(dirname "$0")/.." && pwd)
twice=0
[ "${1:-}" != --twice ] || { twice=1 && shift; }
[ $# -le 1 ] || { echo "usage: release.sh [--twice] [DIR]" >&2; exit 2; }
target=$(realpath -m "${1:-$repo/dist}")
work=${HEADRACE_RELEASE:-/var/tmp/headrace-release}
suite=bookworm root=$work/root
commit=$(git -C "$repo" rev-parse --verify -q "${HEADRACE_RELEASE_OF:-HEAD}^{commit}") || {
	echo "release: HEADRACE_RELEASE_OF: $HEADRACE_RELEASE_OF; allowed: a commit of $repo" >&2
	exit 2
}
version=$(git -C "$repo" show "$commit:VERSION")
SOURCE_DATE_EPOCH=$(git -C "$repo" log -1 --format=%ct "$commit")
export SOURCE_DATE_EPOCH
packages=(python3 python3-venv gcc libc6-dev meson ninja-build pkg-config libdpdk-dev libjansson-dev
	libpcap-dev zlib1g-dev libseccomp-dev libhyperscan-dev libndpi-dev clang libbpf-dev bpftool libxdp-dev)

die() {
	echo "release: $*" >&2
	exit 2
}

[ "$(id -u)" = 0 ] || die "needs root: it makes a file system with device nodes and enters it"
for program in mmdebstrap podman; do
	command -v $program >/dev/null || die "$program is missing: apt-get install mmdebstrap podman"
done
case $(realpath -m "$work")/ in
/mnt/*) die "HEADRACE_RELEASE: $work; allowed: a folder outside of /mnt, which the build mounts over" ;;
esac
. "$repo/scripts/clean-root.sh"
mkdir -p "$work"
exec 9>"$work/lock"
flock -n 9 || die "another release is being built in $work; HEADRACE_RELEASE names another folder"

make_base
rm -rf --one-file-system "$root"
mkdir -p "$root" "$target"
trap 'rm -rf --one-file-system "$root" "$work/image"' EXIT
tar -xf "$work/$suite.tar" -C "$root"
copy_network_settings "$root"
echo "SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH" >>"$root/etc/environment"
mkdir "$root/root/headrace"
git -C "$repo" archive "$commit" | tar -x -C "$root/root/headrace"
inside "$root" root /root "apt-get update -q && DEBIAN_FRONTEND=noninteractive \
	apt-get install -y -q --no-install-recommends ${packages[*]}" >"$work/apt.log" 2>&1 ||
	die "the packages for building cannot be installed: $work/apt.log"
inside "$root" root /root headrace/packaging/build.sh >"$work/build.log" 2>&1 || {
	tail -n 20 "$work/build.log" >&2
	die "the build failed: $work/build.log"
}
cp "$root"/root/headrace/dist/* "$target/"

mkdir -p "$work/image"
git -C "$repo" show "$commit:packaging/Containerfile" >"$work/image/Containerfile"
mapfile -t sources < <(host_sources)
# mmdebstrap leaves the place where it mounted the package, with its folders, in the root: the path of
# this build would be in the image. So it is mounted at a place of the same name for all, and removed.
unshare --mount --propagation private bash -euc 'mount --bind "$1" /mnt; shift; exec mmdebstrap "$@"' \
	release "$target" --quiet --variant=minbase --hook-dir=/usr/share/mmdebstrap/hooks/file-mirror-automount \
	--customize-hook='rm "$1"/mnt/headrace_*.deb' \
	--include="/mnt/headrace_$version-1~deb12_amd64.deb" "$suite" "$work/image/root.tar" "${sources[@]}"
image=localhost/headrace:$version
podman build -q --format oci --timestamp "$SOURCE_DATE_EPOCH" --tag "$image" "$work/image" >/dev/null
podman save -q --format oci-archive --output "$work/image/oci.tar" "$image"
# An archive of podman's has the time at which it was written beside each of its files.
mkdir "$work/image/oci"
tar -xf "$work/image/oci.tar" -C "$work/image/oci"
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
	-cf "$target/headrace-$version-oci.tar" -C "$work/image/oci" blobs index.json oci-layout
podman rmi "$image" >/dev/null
(cd "$target" && sha256sum headrace[-_]"$version"* >SHA256SUMS && cat SHA256SUMS)

[ $twice = 0 ] || {
	# The same commit, whatever was committed meanwhile.
	HEADRACE_RELEASE_OF=$commit HEADRACE_RELEASE=$work/again "$0" "$work/again/dist" >/dev/null
	python3 "$repo/scripts/compare_releases.py" "$target" "$work/again/dist"
}
