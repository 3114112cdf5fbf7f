# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What tests in QEMU guests share: Debian's kernel, an initramfs, QEMU itself, and how a guest is
# started whose root is this machine's own. Sourced; whoever does sets `name`, which messages begin
# with, and for guests of that kind `here`, `repo` and `work`. All that is fetched stays in HEADRACE_VM (default
# ~/.cache/headrace/vm).

cache=${HEADRACE_VM:-$HOME/.cache/headrace/vm}
mkdir -p "$cache"

die() {
	echo "$name: $*" >&2
	exit 1
}

# need PROGRAM PACKAGE ...
need() {
	local missing=()
	while [ $# -gt 0 ]; do
		command -v "$1" >/dev/null || missing+=("$2")
		shift 2
	done
	[ ${#missing[@]} = 0 ] || die "missing: apt-get install ${missing[*]}"
}

# Debian's kernel and its modules, in $cache/kernel.
kernel() {
	local package
	if ! ls "$cache"/kernel/boot/vmlinuz-* >/dev/null 2>&1; then
		package=$(apt-cache depends linux-image-amd64 |
			awk '/Depends: linux-image-[0-9]/ {print $2; exit}')
		[ -n "$package" ] || die "apt knows no linux-image-amd64"
		echo "$name: fetching $package"
		(cd "$cache" && apt-get download -q "$package" >download.log 2>&1) ||
			die "$cache/download.log"
		rm -rf "$cache/kernel.part"
		dpkg-deb -x "$cache/$package"_*.deb "$cache/kernel.part"
		rm "$cache/$package"_*.deb
		mv "$cache/kernel.part" "$cache/kernel"
	fi
	image=$(ls "$cache"/kernel/boot/vmlinuz-*)
	version=${image##*/vmlinuz-}
}

# The package lacks the modules' index: its installation would make it.
modules() {
	[ -e "$cache/kernel/lib/modules/$version/modules.dep" ] || depmod -b "$cache/kernel" "$version"
}

# A program and the libraries that it is linked with, into $root.
put() {
	local library
	install -D "$1" "$root/bin/${1##*/}"
	# A static one has none.
	{ ldd "$1" 2>/dev/null || true; } | { grep -o '/[^ ]*' || true; } | while read -r library; do
		[ -e "$root$library" ] || install -D "$library" "$root$library"
	done
}

# Modules with all that they need, into $root/modules in the order in which they go in.
put_modules() {
	local module file
	mkdir -p "$root/modules"
	: >"$root/modules/order"
	for module in "$@"; do
		modprobe -d "$cache/kernel" -S "$version" --show-depends "$module" |
			awk '$1 == "insmod" {print $2}' | while read -r file; do
			grep -qxF "${file##*/}" "$root/modules/order" && continue
			cp "$file" "$root/modules/"
			echo "${file##*/}" >>"$root/modules/order"
		done
	done
}

pack() {
	(cd "$root" && find . | cpio -o -H newc 2>/dev/null | gzip -1 >"$1")
}

# A QEMU that has the device: HEADRACE_QEMU, the one that is installed, or the distribution's
# backport of a later one, unpacked into the cache (nothing is installed). Its command is in $qemu.
find_qemu() {
	local device=$1 unpacked=$cache/qemu
	qemu=("${HEADRACE_QEMU:-qemu-system-x86_64}")
	if has_device "$device"; then
		return
	fi
	[ -z "${HEADRACE_QEMU:-}" ] || die "HEADRACE_QEMU: $HEADRACE_QEMU has no device $device"
	[ -x "$unpacked/usr/bin/qemu-system-x86_64" ] || fetch_qemu "$unpacked"
	# Its modules, before those of the one that is installed.
	qemu=(env "QEMU_MODULE_DIR=$unpacked/usr/lib/x86_64-linux-gnu/qemu" "$unpacked/lib64/ld-linux-x86-64.so.2"
		--library-path "$unpacked/lib/x86_64-linux-gnu:$unpacked/usr/lib/x86_64-linux-gnu"
		"$unpacked/usr/bin/qemu-system-x86_64"
		-L "$unpacked/usr/share/qemu" -L "$unpacked/usr/share/seabios")
	has_device "$device" || die "$unpacked: this QEMU has no device $device either"
}

has_device() {
	command -v "${qemu[0]}" >/dev/null && { "${qemu[@]}" -device "$1,help" 2>&1 || true; } |
		grep -q "^$1 options"
}

fetch_qemu() {
	local mirror release
	need mmdebstrap mmdebstrap
	release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
	mirror=$({ cat /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null || true; } |
		sed -nE 's/^URIs: *([^ ]+).*/\1/p; s/^deb (\[[^]]*\] )?([^ ]+) .*/\2/p' | head -n 1)
	[ -n "$release" ] && [ -n "$mirror" ] ||
		die "no QEMU with that device, and no package source to fetch one from; name one in HEADRACE_QEMU"
	echo "$name: fetching QEMU from $release-backports"
	rm -rf "$1" "$1.part"
	mmdebstrap --quiet --variant=extract --include=qemu-system-x86 \
		--aptopt="APT::Default-Release \"$release-backports\"" \
		--aptopt='APT::Install-Recommends "false"' "$release" "$1.part" \
		"deb $mirror $release main" "deb $mirror $release-backports main" \
		>"$cache/qemu.log" 2>&1 || die "no QEMU in $release-backports: $cache/qemu.log"
	mv "$1.part" "$1"
}

# The checkout's own may be built for instructions that an emulated CPU lacks. What another checkout
# had built here is of no use.
engine() {
	if [ -n "${HEADRACE_ENGINE:-}" ]; then
		[ -x "$HEADRACE_ENGINE" ] || die "HEADRACE_ENGINE: $HEADRACE_ENGINE is not an executable"
		return
	fi
	HEADRACE_ENGINE=$cache/engine/engine/headrace-engine
	if [ "$(cat "$cache/engine/checkout" 2>/dev/null)" != "$repo" ]; then
		rm -rf "$cache/engine"
		meson setup -Dnative=false "$cache/engine" "$repo" >"$cache/engine.log" 2>&1 ||
			die "$cache/engine.log"
		echo "$repo" >"$cache/engine/checkout"
	fi
	ninja -C "$cache/engine" --quiet engine/headrace-engine >"$cache/engine.log" 2>&1 ||
		die "$cache/engine.log"
}

# Makes $work/initramfs.gz: what leads to a root that is this machine's own.
initramfs() {
	mkdir -p "$root"/{bin,dev,host,proc,root,sys,written}
	put "$(command -v busybox)"
	ln -s busybox "$root/bin/sh"
	put_modules virtio_pci 9pnet_virtio 9p overlay
	install "$here/init" "$root/init"
	pack "$work/initramfs.gz"
}

# share_with_guest FOLDER TEST [LINE...]: what a guest has in /run/share: its second process, the
# engine, and what tests/vm/TEST.py is to know of its environment.
share_with_guest() {
	local share=$1 test=$2
	shift 2
	rm -rf "$share"
	mkdir "$share"
	install "$here/start" "$share/start"
	install "$HEADRACE_ENGINE" "$share/headrace-engine"
	cat >"$share/environment" <<-END
		export HEADRACE_ENGINE=/run/headrace-engine HEADRACE_REPO='$repo'
		HEADRACE_MODULES='$cache/kernel/lib/modules/$version'
		HEADRACE_PYTHON='$repo/.venv/bin/python' HEADRACE_TEST='$here/$test.py'
	END
	[ $# = 0 ] || printf '%s\n' "$@" >>"$share/environment"
}

# wired NAME OWN OTHER: one end of a wire between devices, here or in another guest.
wired() {
	echo "-netdev dgram,id=$1,local.type=unix,local.path=$2,remote.type=unix,remote.path=$3"
}

# emulate SHARE CONSOLE LOG OPTION...: a guest; its process is in $pid. Its kernel is told $kernel_words, too, and its CPUs are $cpu_model. What KVM can is not known
# before; emulation always works, and needs no virtual IOMMU's help. no_timer_check: on a loaded
# machine the kernel's test of its timer panics, as it counts interrupts in a time that it guesses.
emulate() {
	local share=$1 console=$2 log=$3
	shift 3
	rm -f "$console" # of the guest before, which may have said that it stalled
	"${qemu[@]}" -accel tcg,thread=multi,tb-size=512 -cpu "${cpu_model:-max}" \
		-M q35,kernel-irqchip=split -nodefaults -no-user-config -display none -no-reboot \
		-device intel-iommu,intremap=off,caching-mode=on "$@" \
		-kernel "$image" -initrd "$work/initramfs.gz" \
		-append "console=ttyS0 panic=-1 quiet loglevel=4 mitigations=off no_timer_check random.trust_cpu=on intel_iommu=on iommu=pt ${kernel_words:-}" \
		-fsdev local,id=host,path=/,security_model=none,readonly=on,multidevs=remap \
		-device virtio-9p-pci,bus=pcie.0,fsdev=host,mount_tag=host \
		-fsdev "local,id=share,path=$share,security_model=none" \
		-device virtio-9p-pci,bus=pcie.0,fsdev=share,mount_tag=share \
		-serial "file:$console" </dev/null >"$log" 2>&1 &
	pid=$!
}

# broke LOG: whether QEMU itself ended by an assertion of its own (its 10.0 does now and then while
# devices of several emulated CPUs change the memory map), which says nothing of what is tested.
broke() {
	grep -q "Assertion .* failed" "$1" 2>/dev/null
}

# stalled CONSOLE: whether a CPU of an emulated guest is told of no timer any more, as its kernel finds out.
stalled() {
	grep -q 'Possible timer handling issue' "$1" 2>/dev/null
}
