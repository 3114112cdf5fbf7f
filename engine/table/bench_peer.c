/* SPDX-License-Identifier: Apache-2.0 */
/* DPDK's own tables with the same entries: rte_hash, rte_lpm, rte_fib6. */
#include "bench_fib.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_hash.h>
#include <rte_hash_crc.h>
#include <rte_lpm.h>

#define PEER_ENTRIES_MAX (UINT64_C(64) << 20)

struct hash_peer {
	struct rte_hash *hash;
	size_t stride;
};

static uint64_t ask_hash(void *ctx, const void *keys, unsigned int n)
{
	const struct hash_peer *p = ctx;
	const void *ptrs[RTE_HASH_LOOKUP_BULK_MAX];
	void *data[RTE_HASH_LOOKUP_BULK_MAX];
	uint64_t hits, sum = 0;

	for (unsigned int i = 0, k; i < n; i += k) {
		k = n - i < RTE_HASH_LOOKUP_BULK_MAX ? n - i : RTE_HASH_LOOKUP_BULK_MAX;
		for (unsigned int j = 0; j < k; j++)
			ptrs[j] = (const uint8_t *)keys + (i + j) * p->stride;
		rte_hash_lookup_bulk_data(p->hash, ptrs, k, &hits, data);
		sum += hits;
	}
	return sum;
}

static void destroy_hash(void *ctx)
{
	struct hash_peer *p = ctx;

	rte_hash_free(p->hash);
	free(p);
}

static int make_hash(struct bench_peer *p, const struct bench_input *in, struct err *err)
{
	struct rte_hash_parameters hp = {
		.name = "peer",
		.entries = in->n < 8 ? 8 : in->n,
		.key_len = in->stride,
		.hash_func = rte_hash_crc,
		.socket_id = SOCKET_ID_ANY,
		.extra_flag = RTE_HASH_EXTRA_FLAGS_EXT_TABLE, /* or it is full too early */
	};
	struct hash_peer *h = malloc(sizeof(*h));

	if (!h)
		return err_set(err, ENOMEM, "rte_hash", "not enough memory");
	h->stride = in->stride;
	h->hash = rte_hash_create(&hp);
	*p = (struct bench_peer){"rte_hash", {ask_hash, h}, destroy_hash};
	if (!h->hash) {
		free(h);
		*p = (struct bench_peer){0};
		return err_set(err, ENOMEM, "rte_hash", "no room for %llu entries: %s",
			       (unsigned long long)in->n, rte_strerror(rte_errno));
	}
	for (uint64_t i = 0; i < in->n; i++)
		if (rte_hash_add_key_data(h->hash, in->keys + i * in->stride,
					  (void *)(uintptr_t)in->nhs[i])) {
			destroy_hash(h);
			*p = (struct bench_peer){0};
			return err_set(err, ENOSPC, "rte_hash", "full after %llu entries",
				       (unsigned long long)i);
		}
	return 0;
}

static uint64_t ask_lpm(void *ctx, const void *keys, unsigned int n)
{
	uint32_t nhs[64];
	uint64_t sum = 0;

	for (unsigned int i = 0, k; i < n; i += k) {
		k = n - i < 64 ? n - i : 64;
		rte_lpm_lookup_bulk((struct rte_lpm *)ctx, (const uint32_t *)keys + i, nhs, k);
		sum += nhs[0];
	}
	return sum;
}

static void destroy_lpm(void *ctx)
{
	rte_lpm_free(ctx);
}

static int make_lpm(struct bench_peer *p, const struct bench_input *in, struct err *err)
{
	struct rte_lpm_config conf = {.max_rules = in->n + 1, .number_tbl8s = 32768};
	struct rte_lpm *lpm = rte_lpm_create("peer", SOCKET_ID_ANY, &conf);
	uint32_t addr;

	if (!lpm)
		return err_set(err, ENOMEM, "rte_lpm", "no room for %llu prefixes: %s",
			       (unsigned long long)in->n, rte_strerror(rte_errno));
	for (uint64_t i = 0; i < in->n; i++) {
		memcpy(&addr, in->keys + i * 4, 4);
		if (in->lens[i] && rte_lpm_add(lpm, addr, in->lens[i], in->nhs[i])) {
			rte_lpm_free(lpm);
			return err_set(err, ENOSPC, "rte_lpm", "full after %llu prefixes",
				       (unsigned long long)i);
		}
	}
	*p = (struct bench_peer){"rte_lpm", {ask_lpm, lpm}, destroy_lpm};
	return 0;
}

/* IPv6 prefixes have none: DPDK's is what our own is made of. */
int bench_peer_make(struct bench_peer *p, const struct bench_input *in, struct err *err)
{
	*p = (struct bench_peer){0};
	if (in->kind == FIB_EXACT && in->n <= PEER_ENTRIES_MAX)
		return make_hash(p, in, err);
	if (in->kind == FIB_LPM && in->key == FIB_KEY_IPV4)
		return make_lpm(p, in, err);
	return 0;
}

uint64_t bench_eal_bytes(const struct bench_options *o, uint64_t n)
{
	const uint64_t mb = UINT64_C(1) << 20;
	uint64_t bytes = 64 * mb;

	/* rte_hash: a 64-byte bucket for 8 of the next power of two, twice with the extension,
	 * and key, data and ring slot for each entry. */
	if (o->peer && o->kind == FIB_EXACT && n <= PEER_ENTRIES_MAX)
		bytes += n * (2 * 16 + fib_key_bytes(o->key) + 8 + 8 + 16) + 64 * mb;
	if (o->kind == FIB_LPM)
		bytes += 512 * mb + n * 1700;
	return bytes;
}

/* Pages as large as the table's own where the kernel gives them; else ours would win by that. */
static int advise_huge(const struct rte_memseg_list *msl, const struct rte_memseg *ms, void *arg)
{
	madvise(ms->addr, ms->len, MADV_HUGEPAGE);
	return 0;
}

static uint64_t free_huge_bytes(void)
{
	FILE *f = fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "r");
	unsigned long long n = 0;

	if (f && fscanf(f, "%llu", &n) != 1)
		n = 0;
	if (f)
		fclose(f);
	return n << 21;
}

int bench_eal_start(uint64_t bytes, bool *hugepages, struct err *err)
{
	char mb[16];
	const char *argv[16] = {"headrace-bench-fib", "--no-pci", "--no-telemetry",
				"--log-level=error",  "-m",       mb};
	int argc = 6, rc;
	cpu_set_t cpus;

	*hugepages = free_huge_bytes() > bytes;
	snprintf(mb, sizeof(mb), "%llu", (unsigned long long)(bytes >> 20));
	if (*hugepages) {
		argv[argc++] = "--in-memory";
	} else {
		argv[argc++] = "--no-huge";
		argv[argc++] = "--no-shconf";
	}
	/* It would tie this thread to one CPU, and all that this thread starts. */
	sched_getaffinity(0, sizeof(cpus), &cpus);
	rc = rte_eal_init(argc, (char **)(uintptr_t)argv);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	if (rc < 0)
		return err_set(err, ENOMEM, "DPDK", "does not start with %s MB of %s: %s", mb,
			       *hugepages ? "hugepages" : "ordinary memory",
			       rte_strerror(rte_errno));
	if (!*hugepages)
		rte_memseg_walk(advise_huge, NULL);
	return 0;
}
