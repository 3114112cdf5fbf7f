/* SPDX-License-Identifier: Apache-2.0 */
#include "fib.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fib_priv.h"

int fib_check(const struct fib_conf *conf, const char *path, struct err *err)
{
	if (conf->key >= FIB_KEYS)
		return err_set(err, EINVAL, path, "unknown kind of key %d", (int)conf->key);
	if (conf->capacity < 1 || conf->capacity > FIB_CAPACITY_MAX)
		return err_set(err, EINVAL, path, "capacity %llu, must be 1..%llu entries",
			       (unsigned long long)conf->capacity,
			       (unsigned long long)FIB_CAPACITY_MAX);
	if (conf->max_next_hop > FIB_NEXT_HOP_MAX)
		return err_set(err, EINVAL, path, "max_next_hop %u, must be at most %u",
			       conf->max_next_hop, FIB_NEXT_HOP_MAX);
	if (conf->kind == FIB_LPM && conf->key != FIB_KEY_IPV4 && conf->key != FIB_KEY_IPV6)
		return err_set(err, EINVAL, path,
			       "longest prefix match takes keys ipv4 or ipv6, not %s",
			       fib_key_name(conf->key));
	if (conf->kind == FIB_LPM && conf->capacity > LPM_CAPACITY_MAX)
		return err_set(err, EINVAL, path,
			       "capacity %llu, longest prefix match takes 1..%u prefixes",
			       (unsigned long long)conf->capacity, LPM_CAPACITY_MAX);
	return 0;
}

int fib_create(struct fib **out, const struct fib_conf *conf, const char *path, struct err *err)
{
	struct fib_conf full = *conf;
	int rc = fib_check(conf, path, err);

	if (rc)
		return rc;
	if (!full.max_next_hop)
		full.max_next_hop = FIB_NEXT_HOP_MAX;
	switch (full.kind) {
	case FIB_EXACT:
		return cuckoo_create(out, &full, path, err);
	case FIB_LPM:
		return lpm_create(out, &full, path, err);
	}
	return err_set(err, EINVAL, path, "unknown kind of table %d", (int)conf->kind);
}

void fib_destroy(struct fib *f)
{
	if (f)
		f->ops->destroy(f);
}

/* Exact tables have entries of full length only. */
static int check_len(const struct fib *f, uint8_t *len)
{
	if (f->conf.kind == FIB_EXACT)
		*len = fib_key_bits(f->conf.key);
	return *len <= fib_key_bits(f->conf.key) ? 0 : -ERANGE;
}

int fib_insert(struct fib *f, const void *key, uint8_t len, uint16_t nh)
{
	if (check_len(f, &len) || nh > f->conf.max_next_hop)
		return -ERANGE;
	return f->ops->insert(f, key, len, nh);
}

int fib_update(struct fib *f, const void *key, uint8_t len, uint16_t nh)
{
	if (check_len(f, &len) || nh > f->conf.max_next_hop)
		return -ERANGE;
	return f->ops->update(f, key, len, nh);
}

int fib_remove(struct fib *f, const void *key, uint8_t len, uint16_t *old)
{
	uint16_t nh;

	if (check_len(f, &len))
		return -ERANGE;
	return f->ops->remove(f, key, len, old ? old : &nh);
}

int fib_get(const struct fib *f, const void *key, uint8_t len, uint16_t *nh)
{
	if (check_len(f, &len))
		return -ERANGE;
	return f->ops->get(f, key, len, nh);
}

int fib_load(struct fib *f, const void *keys, const uint8_t *lens, const uint16_t *nhs, uint64_t n,
	     uint64_t *bad)
{
	unsigned int bits = fib_key_bits(f->conf.key);

	for (uint64_t i = 0; i < n; i++) {
		if (nhs[i] <= f->conf.max_next_hop && (!lens || lens[i] <= bits))
			continue;
		*bad = i;
		return -ERANGE;
	}
	return f->ops->load(f, keys, lens, nhs, n, bad);
}

int fib_load_range(struct fib *f, const void *first, unsigned int next_hops, uint64_t n,
		   uint64_t *bad)
{
	*bad = 0;
	if (!f->ops->load_range)
		return -ENOTSUP;
	if (!next_hops || next_hops - 1 > f->conf.max_next_hop)
		return -ERANGE;
	return f->ops->load_range(f, first, next_hops, n, bad);
}

int fib_next(const struct fib *f, uint64_t *cursor, struct fib_route *route)
{
	return f->ops->next(f, cursor, route);
}

void fib_stats(const struct fib *f, struct fib_stats *s)
{
	*s = (struct fib_stats){.capacity = f->conf.capacity};
	f->ops->stats(f, s);
}

uint64_t fib_count(const struct fib *f)
{
	struct fib_stats s;

	fib_stats(f, &s);
	return s.entries;
}

const char *fib_strerror(int code)
{
	switch (code < 0 ? -code : code) {
	case 0:
		return "done";
	case EEXIST:
		return "the key is in the table, or twice in the input";
	case ENOENT:
		return "the key is not in the table";
	case ENOSPC:
		return "the table is full";
	case ERANGE:
		return "next hop or prefix length out of range";
	case ENOMEM:
		return "not enough memory";
	}
	return strerror(code < 0 ? -code : code);
}
