/* SPDX-License-Identifier: Apache-2.0 */
#include "nat.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "nf/lib/shared_flows.h"
#include "nf/lib/siphash.h"

/*
 * Which outside endpoint a new session gets.
 *
 * Workers share nothing. A packet that comes back is given to a worker by pkt_flow_hash, so an
 * outside endpoint is taken only when that hash, of the packet as it leaves, is this worker's:
 * the hash is symmetric. Two workers may then use one outside port at the same time, towards
 * different remote endpoints.
 *
 * In an elastic segment any worker may have to have the answers. There a port's low byte is the bucket of
 * who uses it, and an answer is steered by it, not by its tuple: so it comes to the session's bucket, also
 * when functions behind changed the remote endpoint.
 *
 * What a session costs is bounded, however full and however large the pool is: so many endpoints
 * are tried, and where none of them is free, nobody tries towards that remote endpoint again for
 * a while. So a flood of new flows takes nothing from established ones.
 */

#define TRIES_HOME 256 /* at the address that an inside host keeps to (RFC 4787 REQ-2) */
#define TRIES_AWAY 256 /* at all others together */
#define FULL_MS 100

uint32_t nat_pool_addr(const struct nat_params *p, size_t i)
{
	uint32_t addr;

	memcpy(&addr, ((const struct param_ip *)p->pool.items)[i].addr, sizeof(addr));
	return addr;
}

static bool is_static_outside(const struct nat_statics *statics, uint8_t proto, struct nat_endpoint e)
{
	struct nat_endpoint other;

	return nat_find_static(statics, proto, e, false, &other);
}

/*
 * Would the answer come back to this worker? The packet is shown to pkt_flow_hash as it will
 * leave; translate() writes it again, and its checksums.
 */
static bool comes_back(const struct nf_worker *w, struct rte_mbuf *m, uint8_t proto,
		       struct nat_endpoint outside)
{
	struct rte_ipv4_hdr *ip = pkt_l3_hdr(m);
	struct rte_udp_hdr *l4 = pkt_l4_hdr(m);
	struct nat_endpoint was = {ip->src_addr, l4->src_port};
	uint32_t hash;

	if (w->count <= 1 || w->owners)
		return true;
	ip->src_addr = outside.addr;
	if (proto != IPPROTO_ICMP)
		l4->src_port = outside.port;
	hash = pkt_flow_hash(m);
	ip->src_addr = was.addr;
	l4->src_port = was.port;
	return (uint64_t)hash * w->count >> 32 == w->index;
}

static bool is_free(const struct nat_worker *nat, const struct flow_key4 *key,
		    struct nat_endpoint outside)
{
	struct flow_key4 k = nat_inward_key(key, outside);

	if (nat->params->mapping == NAT_ENDPOINT_INDEPENDENT) {
		k = nat_map_key(outside, key->proto, false);
		return !flow_find(nat->mappings, &k);
	}
	return !flow_find(nat->sessions, &k);
}

/* The key is the kernel's, unless somebody wants the same ports each time. */
int nat_ports_init(struct nat_progress *p, const struct nf_worker *w, struct err *err)
{
	uint64_t seed = ((const struct nat_params *)w->nf->conf)->seed;
	unsigned int n = shared_buckets(w);

	p->each = w->owners ? NAT_BUCKET_STEPS : NAT_STEPS;
	p->steps = calloc((size_t)n * p->each, sizeof(*p->steps));
	p->full = calloc((size_t)n * p->each, sizeof(*p->full));
	if (!p->steps || !p->full)
		return err_set(err, ENOMEM, "params", "out of memory");
	p->key[0] = seed;
	p->key[1] = w->index;
	if (seed || getrandom(p->key, sizeof(p->key), 0) == (ssize_t)sizeof(p->key))
		return 0;
	return err_set(err, EIO, "params.seed", "the kernel gives no random key");
}

void nat_ports_fini(struct nat_progress *p)
{
	free(p->steps);
	free(p->full);
}

bool nat_bucket_of(const struct nf *nf, const struct rte_mbuf *m, enum nf_direction dir, uint8_t *bucket)
{
	const struct nat_params *p = nf->conf;
	uint8_t proto = tuple_proto(m);
	struct flow_key4 key;

	if (dir != NF_REVERSE || !pkt_is_ipv4(m))
		return false;
	if (proto)
		tuple_key4(&key, m, proto);
	else if (pkt_l4(m) != RTE_PTYPE_L4_ICMP ||
		 (!nat_query_key(&key, m, dir) && !nat_error_key(&key, m)))
		return false;
	for (size_t i = 0; i < p->pool.count; i++)
		if (nat_pool_addr(p, i) == key.dst) {
			*bucket = (uint8_t)rte_be_to_cpu_16(key.dport);
			return true;
		}
	return false;
}

/* The ports that may be taken: `n` from `first` on, `step` apart. */
struct port_range {
	uint32_t first, step, n;
};

static struct port_range range_of(const struct nf_worker *w, const struct nat_params *p,
				  const struct rte_mbuf *m)
{
	struct port_range r = {(uint32_t)p->port_min, 1, (uint32_t)(p->port_max - p->port_min + 1)};

	if (!w->owners)
		return r;
	r.first += (uint8_t)(pkt_bucket(m) - r.first);
	r.step = PKT_BUCKETS;
	r.n = ((uint32_t)p->port_max - r.first) / PKT_BUCKETS + 1;
	return r;
}

/* Endpoints are free towards one remote endpoint, or, in independent mappings, towards all. */
static uint64_t remote_of(const struct nat_worker *nat, const struct flow_key4 *key)
{
	if (nat->params->mapping == NAT_ENDPOINT_INDEPENDENT)
		return key->proto;
	return (uint64_t)key->dst << 32 | (uint64_t)key->dport << 8 | key->proto;
}

static bool try_ports(struct nf_worker *w, struct rte_mbuf *m, const struct flow_key4 *key,
		      uint32_t first, uint32_t tries, struct nat_endpoint *out)
{
	struct nat_worker *nat = w->state;
	struct port_range range = range_of(w, nat->params, m);

	for (uint32_t i = 0; i < RTE_MIN(tries, range.n); i++) {
		out->port = rte_cpu_to_be_16((uint16_t)(range.first + (first + i) % range.n * range.step));
		w->counters[C_TRIES]++;
		if (comes_back(w, m, key->proto, *out) && is_free(nat, key, *out) &&
		    !is_static_outside(nat->statics, key->proto, *out))
			return true;
	}
	return false;
}

/* RFC 6056 section 3.3.4, double hash-based: a keyed place for each pair of hosts, and a step on for
 * each session. */
static uint32_t first_port(struct nat_progress *p, const struct flow_key4 *key, unsigned int bucket)
{
	const uint64_t words[] = {key->src, (uint64_t)key->dst << 16 | key->dport, 0};
	const uint64_t steps[] = {key->src, key->dst, 1};
	uint16_t *step = p->steps + bucket * p->each + siphash(p->key, steps, RTE_DIM(steps)) % p->each;

	return (uint32_t)(siphash(p->key, words, RTE_DIM(words)) >> 32) + (*step)++;
}

bool nat_pick_outside(struct nf_worker *w, struct rte_mbuf *m, const struct flow_key4 *key,
		      uint32_t now, struct nat_endpoint *out)
{
	struct nat_worker *nat = w->state;
	const struct nat_params *p = nat->params;
	uint64_t remote = remote_of(nat, key);
	const uint64_t words[] = {remote, 0, 2};
	struct nat_progress *at = &nat->progress;
	unsigned int bucket = shared_bucket(w, m);
	uint64_t slot = siphash(at->key, words, RTE_DIM(words)) % at->each;
	struct nat_full *full = at->full + bucket * at->each + slot;
	size_t home = (rte_be_to_cpu_32(key->src) * 2654435761u >> 8) % p->pool.count;
	uint32_t first, each, left = TRIES_AWAY;

	/* Not `until` by its sign: one that nobody has looked at for ten days would lie in the future. */
	if (full->remote == remote && full->until - now - 1 < flow_ticks(FULL_MS))
		return false;
	first = first_port(at, key, bucket);
	each = RTE_MAX(1u, TRIES_AWAY / (uint32_t)p->pool.count);
	for (size_t a = 0; a < p->pool.count && (!a || left >= each); a++) {
		out->addr = nat_pool_addr(p, (home + a) % p->pool.count);
		if (try_ports(w, m, key, first, a ? each : TRIES_HOME, out))
			return true;
		left -= a ? each : 0;
	}
	*full = (struct nat_full){.remote = remote, .until = now + flow_ticks(FULL_MS)};
	return false;
}
