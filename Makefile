# SPDX-License-Identifier: Apache-2.0
# Each target does the set-up it needs; with nothing to do that takes about a second.

VENV := .venv/bin
FUZZ_SECONDS ?= 600
KILLS ?= 10
SOAK_SECONDS ?= 3600
FUZZ_CORPUS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/headrace/fuzz
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)

.PHONY: help setup demo unit test test-slow test-containers test-soak test-threads bench bench-fib-1g test-vm test-vm-trace test-vm-sriov test-vm-sriov-machines test-vm-sriov-ports test-vm-servers test-vm-isolated test-vm-placement test-vm-lab test-kubernetes lint format fuzz fuzz-nightly docs release clean distclean

help:
	@echo 'make demo          measure a small chain of network functions, write a report'
	@echo 'make unit          lint, and the tests without lcores or devices: for daily work, a minute and a half'
	@echo 'make test          all tests'
	@echo 'make test-slow     tests that take minutes each and are skipped there (root)'
	@echo 'make test-containers  third-party VNFs in containers; builds their images (root, podman)'
	@echo 'make test-soak     a host and eight VNFs for SOAK_SECONDS (default 3600): nothing grows'
	@echo 'make test-kubernetes  studies on a cluster of two nodes, which is built once (root, Go; 45 minutes)'
	@echo 'make bench         cycles per packet beside testpmd, as ratios'
	@echo 'make bench-fib-1g  forwarding table with 10^9 entries, alone and in l3fwd (16 GB, 15 minutes)'
	@echo 'make test-vm-trace both backends of the tracer in a QEMU guest with Debian'"'"'s kernel'
	@echo 'make test-vm-sriov     virtual functions of an emulated NIC given to VNFs, in a QEMU guest (root)'
	@echo 'make test-vm-sriov-machines  the same, to VNFs in virtual machines within it (10 minutes)'
	@echo 'make test-vm-sriov-ports    40 VNFs on the functions of twelve ports'
	@echo 'make test-vm-servers   three servers, 80 functions, isolated CPUs: the main parts of the others (root)'
	@echo 'make test-vm-isolated  lcores of a server whose kernel isolates CPUs, in such a guest (root)'
	@echo 'make test-vm-placement placements checked in a QEMU guest with two NUMA nodes (root)'
	@echo 'make test-vm-lab       three emulated servers, chains over their NICs by SSH (root; 9 minutes)'
	@echo 'make test-vm       VNFs in virtual machines, emulated (QEMU)'
	@echo 'make lint          ruff, mypy, C style, codespell'
	@echo 'make format        C and Python as the style has it'
	@echo 'make test-threads  all that may be done to a running engine at once, under ThreadSanitizer (root)'
	@echo 'make fuzz          every fuzzer for FUZZ_SECONDS (default 600)'
	@echo 'make fuzz-nightly  every fuzzer for an hour, from the inputs of all nights (FUZZ_CORPUS)'
	@echo 'make docs          the reference, from engine and lab themselves, and the site in site/'
	@echo 'make release       wheel, Debian packages and image into dist/, from the committed state (root)'
	@echo 'make setup         packages, Python environment and engine, nothing else'
	@echo 'make clean         what was built; distclean: and the Python environment'

setup:
	@scripts/setup.sh run trace
	@echo 'Ready: $(VENV)/headrace --help'

demo:
	@scripts/setup.sh demo
	@scripts/demo.sh

unit:
	@scripts/setup.sh run test lint
	@scripts/unit.sh

test:
	@scripts/setup.sh run test fuzz trace
	@scripts/test.sh

# Images are built once.
test-containers:
	@scripts/setup.sh run test containers
	@$(SUDO) env HEADRACE_CONTAINERS=$(HEADRACE_CONTAINERS) $(VENV)/headrace vnf build nat ip-firewall l7-cache l4-lb ids router headrace traffic
	@$(SUDO) env PYTHONDONTWRITEBYTECODE=1 HEADRACE_KILLS=$(KILLS) HEADRACE_SLOW=1 \
		HEADRACE_CONTAINERS=$(HEADRACE_CONTAINERS) \
		$(VENV)/python -m pytest -p no:cacheprovider tests/containers

# Kubernetes itself and the images of VNFs are built once.
test-kubernetes:
	@scripts/setup.sh run test containers kubernetes
	@scripts/cluster.sh build
	@$(SUDO) env HEADRACE_CONTAINERS=$(HEADRACE_CONTAINERS) $(VENV)/headrace vnf build nat ip-firewall l7-cache l4-lb ids router headrace traffic
	@$(SUDO) env PYTHONDONTWRITEBYTECODE=1 HEADRACE_SLOW=1 \
		HEADRACE_CLUSTER=$(or $(HEADRACE_CLUSTER),$(HOME)/.cache/headrace/kubernetes) \
		$(VENV)/python -m pytest -p no:cacheprovider tests/kubernetes

bench:
	@scripts/setup.sh run bench
	@scripts/with-hugepages.sh 2048 env PYTHONPATH=tests $(VENV)/python -m perf $(BENCH_ARGS)

test-slow:
	@scripts/setup.sh run test slow trace offload
	@$(SUDO) env PYTHONDONTWRITEBYTECODE=1 HEADRACE_SLOW=1 \
		$(VENV)/python -m pytest -p no:cacheprovider -m slow --ignore=tests/containers tests

# Niced: it may stand still while others measure.
test-soak:
	@scripts/setup.sh run test
	@env PYTHONPATH=tests nice -n 19 $(VENV)/python -m soak --seconds $(SOAK_SECONDS)

test-threads:
	@scripts/setup.sh run test
	@$(SUDO) scripts/threads.sh

test-vm-trace:
	@scripts/setup.sh run trace guests
	@tests/trace/vm/run.sh

test-vm-sriov:
	@scripts/setup.sh run test guests
	@$(SUDO) env HEADRACE_VM=$(HEADRACE_VM) tests/vm/run.sh sriov

test-vm-sriov-machines:
	@scripts/setup.sh run test vm guests
	@$(SUDO) env HEADRACE_VM=$(HEADRACE_VM) tests/vm/run.sh sriov_machines

test-vm-sriov-ports:
	@scripts/setup.sh run test guests
	@$(SUDO) env HEADRACE_VM=$(HEADRACE_VM) tests/vm/run.sh sriov_ports

test-vm-isolated:
	@scripts/setup.sh run test guests
	@$(SUDO) env HEADRACE_VM=$(HEADRACE_VM) tests/vm/run.sh isolated

test-vm-placement:
	@scripts/setup.sh run test guests
	@$(SUDO) env HEADRACE_VM=$(HEADRACE_VM) tests/vm/run.sh placement

# What of these whole servers have to show, one after the other.
test-vm-servers:
	@scripts/setup.sh run test guests
	@$(SUDO) env HEADRACE_VM=$(HEADRACE_VM) tests/vm/servers.sh

# As a user runs it from a desk: nothing of it is in the guests but headrace and an SSH server.
test-vm-lab:
	@scripts/setup.sh run test guests
	@$(SUDO) env HEADRACE_VM=$(HEADRACE_VM) tests/vm/lab.sh

bench-fib-1g:
	@scripts/setup.sh run bench
	@scripts/with-hugepages.sh 10240 $(VENV)/headrace bench fib --kind exact --entries 1G
	@scripts/with-hugepages.sh 10240 $(VENV)/headrace run studies/s1/fib.yaml

# No root needed; QEMU's own emulation where KVM does not run guests.
test-vm:
	@scripts/setup.sh run test vm
	@env HEADRACE_SLOW=1 $(VENV)/python -m pytest tests/hosting/test_vm.py

lint:
	@scripts/setup.sh run lint
	@scripts/lint.sh

format:
	@scripts/setup.sh run lint
	@scripts/lint.sh --fix

fuzz:
	@scripts/setup.sh run fuzz
	@scripts/fuzz.sh $(FUZZ_SECONDS)

fuzz-nightly:
	@scripts/setup.sh run fuzz
	@FUZZ_CORPUS=$(FUZZ_CORPUS) scripts/fuzz.sh --keep 3600

docs:
	@scripts/setup.sh run docs
	@$(VENV)/python scripts/reference.py
	@$(VENV)/python scripts/claims_page.py
	@$(VENV)/python scripts/gallery.py
	@NO_MKDOCS_2_WARNING=1 $(VENV)/mkdocs build --quiet --strict
	@echo 'Site: site/index.html; with search: python3 -m http.server -d site'

# In a clean Debian 12; mmdebstrap and podman are needed.
release:
	@$(SUDO) scripts/release.sh

clean:
	rm -rf build build-fuzz dist

distclean: clean
	rm -rf .venv .setup
