/* SPDX-License-Identifier: Apache-2.0 */
#include "flows.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <rte_byteorder.h>
#include <rte_ip.h>
#include <rte_malloc.h>

#define PORTS 64512 /* a varying port stays in 1024..65535 */

static void flow_sums(struct flow *f, bool ipv6)
{
	uint64_t addr = (uint64_t)(f->src & 0xffff) + (f->src >> 16);

	addr += (uint64_t)(f->dst & 0xffff) + (f->dst >> 16);
	/* The template has the protocol; a raw flow brings its own. */
	f->ip_sum = ipv6 ? 0
			 : sum_fold(addr + (f->kind == FLOW_OTHER
						    ? rte_cpu_to_be_16(f->proto)
						    : 0));
	f->l4_sum = f->kind == FLOW_OTHER ? 0 : sum_fold(addr + f->sport + f->dport);
}

static uint32_t add_be32(uint32_t be, uint32_t n)
{
	return rte_cpu_to_be_32(rte_be_to_cpu_32(be) + n);
}

static uint16_t add_port(uint16_t be, uint64_t n)
{
	uint64_t port = rte_be_to_cpu_16(be);

	if (port < 65536 - PORTS)
		port = 65536 - PORTS;
	return rte_cpu_to_be_16(65536 - PORTS + (port - (65536 - PORTS) + n) % PORTS);
}

void flows_compute(const struct flows *f, uint64_t i, struct flow *out)
{
	*out = f->base;
	if (f->vary[VARY_SRC_IP])
		out->src = add_be32(out->src, i);
	if (f->vary[VARY_DST_IP])
		out->dst = f->n_dst && !f->ipv6 ? f->dst4[i % f->n_dst] : add_be32(out->dst, i);
	if (f->vary[VARY_SRC_PORT])
		out->sport = add_port(out->sport, i);
	if (f->vary[VARY_DST_PORT])
		out->dport = add_port(out->dport, i);
	flow_sums(out, f->ipv6);
}

struct alias *alias_zipf(uint64_t n, double s)
{
	struct alias *a = malloc(n * sizeof(*a));
	double *p = malloc(n * sizeof(*p)), sum = 0;
	uint32_t *small = malloc(n * sizeof(*small)), *large = malloc(n * sizeof(*large));
	uint64_t ns = 0, nl = 0;

	if (!a || !p || !small || !large) {
		free(a);
		a = NULL;
		goto out;
	}
	for (uint64_t i = 0; i < n; i++)
		sum += p[i] = pow(i + 1.0, -s);
	for (uint64_t i = 0; i < n; i++) {
		p[i] *= n / sum;
		a[i] = (struct alias){.threshold = UINT32_MAX, .other = i};
		if (p[i] < 1)
			small[ns++] = i;
		else
			large[nl++] = i;
	}
	while (ns && nl) {
		uint32_t l = small[--ns], g = large[nl - 1];

		a[l] = (struct alias){.threshold = (uint32_t)(p[l] * UINT32_MAX), .other = g};
		p[g] -= 1 - p[l];
		if (p[g] < 1) {
			small[ns++] = g;
			nl--;
		}
	}
out:
	free(p);
	free(small);
	free(large);
	return a;
}

/* Address for a table entry: a host inside the prefix, the network address where that is all. */
static void host_in(const struct param_ip *ip, uint8_t *addr)
{
	unsigned int bits = ip->family == 4 ? 32 : 128;

	memcpy(addr, ip->addr, bits / 8);
	if (ip->len < bits)
		addr[bits / 8 - 1] |= 1;
}

static int add_dst(struct flows *f, const struct param_ip *ip)
{
	uint64_t n = f->n_dst;

	/* Grown by doubling: n is a power of two exactly when the room is used up. */
	if (!(n & (n - 1))) {
		size_t size = (n ? 2 * n : 1) * (f->ipv6 ? 16 : 4);
		void *p = realloc(f->ipv6 ? (void *)f->dst6 : f->dst4, size);

		if (!p)
			return -ENOMEM;
		if (f->ipv6)
			f->dst6 = p;
		else
			f->dst4 = p;
	}
	host_in(ip, f->ipv6 ? f->dst6[n] : (uint8_t *)&f->dst4[n]);
	f->n_dst++;
	return 0;
}

/* One address or prefix per line, what follows it ignored; '#' starts a comment; gz as well. */
static int load_dsts(struct flows *f, const char *file, struct err *err)
{
	gzFile in = gzopen(file, "rb");
	char line[256], place[192];
	struct param_ip ip;
	int rc = 0;

	if (!in)
		return err_set(err, EINVAL, "params.dst_ips_file", "cannot open \"%s\"", file);
	for (unsigned int n = 1; gzgets(in, line, sizeof(line)); n++) {
		char *word = line + strspn(line, " \t");

		word[strcspn(word, " \t\r\n,#")] = '\0';
		if (!*word)
			continue;
		if (param_ip_parse(word, &ip)) {
			snprintf(place, sizeof(place), "%.170s:%u", file, n);
			rc = err_set(err, EINVAL, place, "\"%.60s\" is no address or prefix", word);
			break;
		}
		/* A file with both families serves the one that the source sends. */
		if ((ip.family == 6) != f->ipv6)
			continue;
		if (add_dst(f, &ip)) {
			rc = err_set(err, ENOMEM, "params.dst_ips_file", "out of memory");
			break;
		}
	}
	gzclose(in);
	if (!rc && !f->n_dst)
		rc = err_set(err, EINVAL, "params.dst_ips_file", "\"%s\" has no IPv%d address", file,
			     f->ipv6 ? 6 : 4);
	return rc;
}

static int parse_header(const char *line, bool ipv6, struct flow *f)
{
	unsigned long long src, dst;
	unsigned int sport, dport, proto;

	if (ipv6 || sscanf(line, "%llu %llu %u %u %u", &src, &dst, &sport, &dport, &proto) != 5 ||
	    src > UINT32_MAX || dst > UINT32_MAX || sport > 65535 || dport > 65535 || proto > 255)
		return -EINVAL;
	*f = (struct flow){
		.src = rte_cpu_to_be_32(src),
		.dst = rte_cpu_to_be_32(dst),
		.sport = rte_cpu_to_be_16(sport),
		.dport = rte_cpu_to_be_16(dport),
		.proto = proto,
		.kind = proto == IPPROTO_UDP   ? FLOW_UDP
			: proto == IPPROTO_TCP ? FLOW_TCP
					       : FLOW_OTHER,
	};
	return 0;
}

/* ClassBench header trace: src dst sport dport proto [...] in decimal; at most `limit` of them. */
static int load_headers(struct flows *f, const char *file, uint64_t limit, struct err *err)
{
	gzFile in = gzopen(file, "rb");
	char line[256], place[192];
	uint64_t room = 0;
	int rc = 0;

	if (!in)
		return err_set(err, EINVAL, "params.headers_file", "cannot open \"%s\"", file);
	f->n = 0;
	for (unsigned int n = 1; f->n < limit && gzgets(in, line, sizeof(line)); n++) {
		if (f->n == room) {
			struct flow *more = rte_zmalloc("flows", (room ? 2 * room : 1024) * sizeof(*more),
							RTE_CACHE_LINE_SIZE);

			if (!more) {
				rc = err_set(err, ENOMEM, "params.headers_file", "out of memory");
				break;
			}
			if (room)
				memcpy(more, f->flow, room * sizeof(*more));
			rte_free(f->flow);
			f->flow = more;
			room = room ? 2 * room : 1024;
		}
		if (parse_header(line, f->ipv6, &f->flow[f->n])) {
			line[strcspn(line, "\r\n")] = '\0';
			snprintf(place, sizeof(place), "%.170s:%u", file, n);
			rc = err_set(err, EINVAL, place,
				     "\"%.60s\" is no header: five decimal IPv4 fields src dst sport "
				     "dport proto are wanted",
				     line);
			break;
		}
		flow_sums(&f->flow[f->n], f->ipv6);
		f->n++;
	}
	gzclose(in);
	if (!rc && !f->n)
		rc = err_set(err, EINVAL, "params.headers_file", "\"%s\" has no header", file);
	return rc;
}

static int fill_table(struct flows *f, struct err *err)
{
	f->flow = rte_zmalloc("flows", f->n * sizeof(*f->flow), RTE_CACHE_LINE_SIZE);
	if (!f->flow)
		return err_set(err, ENOMEM, "params.flows",
			       "no memory for %llu flows of %zu bytes; raise engine.memory_mb",
			       (unsigned long long)f->n, sizeof(*f->flow));
	for (uint64_t i = 0; i < f->n; i++) {
		struct flow *fl = &f->flow[i];

		flows_compute(f, i, fl);
		if (f->ipv6 && f->n_dst) {
			const uint16_t *w = (const uint16_t *)f->dst6[i % f->n_dst];
			uint64_t sum = (uint64_t)(fl->src & 0xffff) + (fl->src >> 16) + fl->sport +
				       fl->dport;

			for (int k = 0; k < 8; k++)
				sum += w[k];
			fl->dst = i % f->n_dst;
			fl->l4_sum = fl->kind == FLOW_OTHER ? 0 : sum_fold(sum);
		}
	}
	return 0;
}

static void set_base(struct flows *f, const struct flows_conf *c)
{
	const uint32_t *vary = c->vary.items;
	unsigned int low = c->src_ip.family == 6 ? 12 : 0;

	for (size_t i = 0; i < c->vary.count; i++)
		f->vary[vary[i]] = true;
	memcpy(&f->base.src, c->src_ip.addr + low, 4);
	memcpy(&f->base.dst, c->dst_ip.addr + low, 4);
	f->base.sport = rte_cpu_to_be_16(c->src_port);
	f->base.dport = rte_cpu_to_be_16(c->dst_port);
	f->base.kind = c->protocol;
	f->base.proto = c->protocol == FLOW_UDP ? IPPROTO_UDP : IPPROTO_TCP;
}

static int fill_alias(struct flows *f, const struct flows_conf *c, unsigned int n_queues,
		      struct err *err)
{
	if (!f->table)
		return err_set(err, EINVAL, "params.order", "zipf needs at most %u flows",
			       FLOWS_TABLE_MAX);
	f->n_alias = RTE_MAX(f->n / n_queues, 1u);
	f->alias = alias_zipf(f->n_alias, c->zipf_s);
	return f->alias ? 0 : err_set(err, ENOMEM, "params.flows", "out of memory");
}

int flows_create(struct flows *f, const struct flows_conf *c, unsigned int n_queues,
		 struct err *err)
{
	int rc = 0;

	memset(f, 0, sizeof(*f));
	if (c->src_ip.family != c->dst_ip.family)
		return err_set(err, EINVAL, "params.dst_ip",
			       "src_ip and dst_ip must be of one family; src_ip is IPv%u",
			       c->src_ip.family);
	f->ipv6 = c->src_ip.family == 6;
	f->n = c->flows;
	f->order = c->order;
	set_base(f, c);
	if (c->dst_ips_file) {
		f->vary[VARY_DST_IP] = true;
		rc = load_dsts(f, c->dst_ips_file, err);
	}
	if (!rc && c->headers_file)
		rc = load_headers(f, c->headers_file, c->flows > 1 ? c->flows : UINT64_MAX, err);
	f->table = c->headers_file || f->n <= FLOWS_TABLE_MAX;
	if (!rc && !f->table && f->ipv6 && f->n_dst)
		rc = err_set(err, EINVAL, "params.flows", "at most %u with IPv6 dst_ips_file",
			     FLOWS_TABLE_MAX);
	if (!rc && f->table && !c->headers_file)
		rc = fill_table(f, err);
	if (!rc && f->order == ORDER_ZIPF)
		rc = fill_alias(f, c, n_queues, err);
	if (rc)
		flows_destroy(f);
	return rc;
}

void flows_reset_sequences(struct flows *f)
{
	for (uint64_t i = 0; f->table && i < f->n; i++)
		f->flow[i].seq = 0;
}

void flows_destroy(struct flows *f)
{
	rte_free(f->flow);
	free(f->dst6);
	free(f->dst4);
	free(f->alias);
	memset(f, 0, sizeof(*f));
}
