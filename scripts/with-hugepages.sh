#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Run a command with so many 2 MB hugepages free, and give back afterwards what was reserved for it.
# Where that is not possible the command runs all the same, on ordinary memory: headrace then
# says so in its records.
#
#   scripts/with-hugepages.sh MEGABYTES COMMAND [ARGUMENT]...
set -uo pipefail

pool=/sys/kernel/mm/hugepages/hugepages-2048kB
need=$(($1 / 2))
shift

write_pool() {
	if [ -w "$pool/nr_hugepages" ]; then
		echo "$1" >"$pool/nr_hugepages"
	else
		sudo -n sh -c "echo $1 >$pool/nr_hugepages"
	fi 2>/dev/null
}

# The count is read and then written: whoever does so holds this lock, as the lab does, or two at
# once would undo each other's. The command does not inherit it.
lock() {
	exec 9<"$pool/nr_hugepages" && flock 9
}

unlock() {
	exec 9<&-
}

reserved=0
if [ -r "$pool/nr_hugepages" ]; then
	lock
	before=$(cat "$pool/nr_hugepages")
	free=$(cat "$pool/free_hugepages")
	if [ "$free" -lt "$need" ] && write_pool $((before + need - free)); then
		reserved=$(($(cat "$pool/nr_hugepages") - before))
	fi
	unlock
	[ "$(cat "$pool/free_hugepages")" -ge "$need" ] ||
		echo "hugepages: $need of 2 MB could not be had; going on with ordinary memory" >&2
fi

give_back() {
	# Others may have changed the pool meanwhile: take off what was put on, no more.
	[ "$reserved" -gt 0 ] || return
	lock
	write_pool $(($(cat "$pool/nr_hugepages") - reserved))
	unlock
	reserved=0
}
trap give_back EXIT
# An interrupt is the command's to handle (headrace closes its bundle); bash waits for it.
trap : INT TERM

"$@"
