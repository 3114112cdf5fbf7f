/* SPDX-License-Identifier: Apache-2.0 */
#include "elastic_by_address.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/nf.h"
#include "core/pkt.h"
#include "nf/lib/shared_flows.h"

#define ALLOWED(by_dst) ((by_dst) ? 2000u : 20u) /* packets of an address */
#define KNOWN_MAX 65536

enum { DROP_MANY };
enum { C_ADDRESSES };

struct by {
	struct flow_table *addresses;
};

static struct flow_key6 known[2][KNOWN_MAX];
static size_t n_known[2];

size_t by_address_known(unsigned int which)
{
	return n_known[which];
}

static int worker_init(struct nf_worker *w, struct err *err)
{
	const struct by *first = shared_first(w);
	struct flow_conf conf = {.family = FLOW_IPV6, .capacity = 32768, .state_bytes = 8,
				 .socket_id = w->socket_id};
	struct by *by = w->state = calloc(1, sizeof(*by));
	unsigned int which = w->nf->ops->state_key == NF_STATE_DST;

	if (!by)
		return err_set(err, ENOMEM, "", "out of memory");
	if (!first)
		n_known[which] = 0;
	return shared_flows(w, &conf, first ? first->addresses : NULL, &by->addresses, err);
}

static void worker_fini(struct nf_worker *w)
{
	struct by *by = w->state;

	if (by)
		flow_destroy(by->addresses);
	free(by);
	w->state = NULL;
}

static void note(unsigned int which, const struct flow_key6 *key)
{
	struct flow_key6 plain = *key;

	plain.shard = 0;
	for (size_t i = n_known[which]; i-- > 0;)
		if (!memcmp(&known[which][i], &plain, sizeof(plain)))
			return;
	if (n_known[which] < KNOWN_MAX)
		known[which][n_known[which]++] = plain;
}

/* False: it has none. */
static bool key_of(struct flow_key6 *key, const struct rte_mbuf *m, bool destination)
{
	const uint8_t *l3 = pkt_l3_hdr(m);

	*key = (struct flow_key6){.shard = pkt_bucket(m)};
	if (pkt_is_ipv4(m))
		memcpy(key->src, l3 + (destination ? 16 : 12), 4);
	else if (pkt_is_ipv6(m))
		memcpy(key->src, l3 + (destination ? 24 : 8), 16);
	else
		return false;
	return true;
}

static void process(struct nf_worker *w, struct burst *b)
{
	bool dst = w->nf->ops->state_key == NF_STATE_DST;
	struct by *by = w->state;

	for (uint16_t i = 0; i < b->n; i++) {
		struct flow_key6 key;
		struct flow *f;

		if (!key_of(&key, b->pkts[i], dst ^ (b->direction == NF_REVERSE)))
			continue;
		f = flow_find(by->addresses, &key);
		if (!f) {
			f = flow_insert(by->addresses, &key);
			if (!f)
				abort();
			w->counters[C_ADDRESSES]++;
			note(dst, &key);
		}
		if (++*(uint64_t *)flow_state6(f) > ALLOWED(dst))
			b->verdict[i] = NF_DROP(DROP_MANY);
	}
}

static const char *const drops[] = {[DROP_MANY] = "many", NULL};
static const char *const counters[] = {[C_ADDRESSES] = "addresses", NULL};

#define BY(id, text, key)                                                                          \
	static const struct nf_ops id = {                                                          \
		.name = text, .drops = drops, .counters = counters, .may_drop = true,              \
		.category = NF_GENERAL, .state_key = key, .wants_headers = true,                   \
		.elastic = (key) != NF_STATE_GLOBAL, .worker_init = worker_init,                   \
		.worker_fini = worker_fini, .process = process,                                    \
	};                                                                                         \
	NF_REGISTER(id)
BY(by_src, "by-src", NF_STATE_SRC)
BY(by_dst, "by-dst", NF_STATE_DST)
BY(of_all, "of-all", NF_STATE_GLOBAL)
