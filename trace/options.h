/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum backend {
	BACKEND_TP_BTF,
	BACKEND_FENTRY,
};

struct options {
	enum backend backend;
	double sample;
	double duration_s; /* 0: until a signal */
	uint32_t packets;  /* slots of the table of packets in flight */
	uint32_t histograms;
	uint32_t expiry_ms;
	bool paths;
	uint64_t slow_ns;
	uint32_t paths_max;
	uint8_t proto;
	uint16_t port;
	uint32_t addr; /* host order; 0: any */
	bool bare_head;
	bool audit;
	bool softirq;
	bool stats;
	bool buckets;
	bool copy_reads;
	bool idle;
	bool check;
	bool with_parent;
	const char *ready_file;
};

/* 0; 1: --help or --version was answered; -EINVAL: msg says what is wrong. */
int options_parse(int argc, char **argv, struct options *o, char *msg, unsigned int msg_size);
