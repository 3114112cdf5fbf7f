#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What whole servers have to show, emulated, in one go: a generator on another server by its NIC's PCI
# address, a chain on two servers (lab.sh), 40 VNFs on the functions of twelve ports, and lcores on two
# nodes whose kernel isolates CPUs (run.sh). Needs root; environment as for those two. Exit status 0
# when all of it holds.
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
failed=()
part() {
	"$here/$@" || failed+=("${*}")
}
part lab.sh pvp-generator-by-pci chain
part run.sh sriov_ports
part run.sh isolated
echo "test-vm-servers: $([ ${#failed[@]} = 0 ] && echo passed || echo "FAILED (${failed[*]})") in $SECONDS s"
[ ${#failed[@]} = 0 ]
