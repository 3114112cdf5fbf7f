/* SPDX-License-Identifier: Apache-2.0 */
#include "lb.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t protocols[] = {[LB_TCP] = IPPROTO_TCP, [LB_UDP] = IPPROTO_UDP};

static const struct lb_vip_params *vip_at(const struct lb_params *p, unsigned int i)
{
	return (const struct lb_vip_params *)p->vips.items + i;
}

static bool has_mac(const struct lb_backend_params *b)
{
	static const struct param_mac none;

	return memcmp(&b->mac, &none, sizeof(none)) != 0;
}

static void address_text(const struct param_ip *ip, char *buf, size_t size)
{
	inet_ntop(ip->family == 4 ? AF_INET : AF_INET6, ip->addr, buf, (socklen_t)size);
}

static int check_host(const struct param_ip *ip, const char *path, struct err *err)
{
	if (ip->len == (ip->family == 4 ? 32 : 128))
		return 0;
	return err_set(err, EINVAL, path, "a prefix of length %u; a host address is wanted", ip->len);
}

static int check_vip(const struct lb_params *p, unsigned int i, struct err *err)
{
	char path[64];

	snprintf(path, sizeof(path), "params.vips[%u].address", i);
	return check_host(&vip_at(p, i)->address, path, err);
}

static int check_member(const struct lb_params *p, const struct lb_member *m, const char *path,
			struct err *err)
{
	const struct lb_vip_params *vip = vip_at(p, m->vip);
	const struct lb_backend_params *b = &m->params;
	int rc = check_host(&b->address, path, err);

	if (rc)
		return rc;
	if (b->address.family != vip->address.family)
		return err_set(err, EINVAL, path,
			       "an IPv%u backend for an IPv%u VIP; both must be of one family",
			       b->address.family, vip->address.family);
	if (!vip->port && b->port)
		return err_set(err, EINVAL, path,
			       "port %u for a VIP of all ports; allowed: 0, as ports are kept",
			       (unsigned int)b->port);
	if (p->mode == LB_DSR && !has_mac(b))
		return err_set(err, EINVAL, path, "mode dsr needs the backend's \"mac\"");
	if (p->mode == LB_DSR && b->port && b->port != vip->port)
		return err_set(err, EINVAL, path, "port %u: mode dsr cannot change the port %u",
			       (unsigned int)b->port, (unsigned int)vip->port);
	return 0;
}

static const struct lb_backend_params *backend_at(const struct lb_params *p, unsigned int v, size_t i)
{
	return (const struct lb_backend_params *)vip_at(p, v)->backends.items + i;
}

/* The address behind it; false: it was the last one there is. */
static bool next_address(struct param_ip *ip)
{
	for (int i = ip->family == 4 ? 3 : 15; i >= 0; i--)
		if (++ip->addr[i])
			return true;
	return false;
}

static int add_backends(struct lb_members *members, const struct lb_params *p, unsigned int v, size_t i,
			struct err *err)
{
	struct lb_backend_params one = *backend_at(p, v, i);
	uint64_t count = one.count;
	char path[64];

	one.count = 1;
	for (uint64_t n = 0; n < count; n++) {
		if (n && !next_address(&one.address)) {
			snprintf(path, sizeof(path), "params.vips[%u].backends[%zu].count", v, i);
			return err_set(err, EINVAL, path, "address %llu of it is past the last one",
				       (unsigned long long)n);
		}
		members->list[members->count++] = (struct lb_member){.params = one, .vip = (uint16_t)v};
	}
	return 0;
}

int lb_members_init(struct lb_members *members, const struct lb_params *p, struct err *err)
{
	uint64_t total = 0;
	int rc = 0;

	for (unsigned int v = 0; v < p->vips.count; v++)
		for (size_t i = 0; i < vip_at(p, v)->backends.count; i++)
			total += backend_at(p, v, i)->count;
	if (total > LB_BACKENDS_MAX)
		return err_set(err, EINVAL, "params.vips", "%llu backends; at most %u are allowed",
			       (unsigned long long)total, LB_BACKENDS_MAX);
	members->list = calloc(total ? total : 1, sizeof(*members->list));
	if (!members->list)
		return err_set(err, ENOMEM, "params.vips", "out of memory");
	for (unsigned int v = 0; v < p->vips.count && !rc; v++)
		for (size_t i = 0; i < vip_at(p, v)->backends.count && !rc; i++)
			rc = add_backends(members, p, v, i, err);
	return rc;
}

static struct lb_key make_key(const struct param_ip *ip, uint8_t proto, uint16_t port)
{
	struct lb_key k = {.proto = proto, .port = rte_cpu_to_be_16(port), .family = ip->family};

	memcpy(k.addr, ip->addr, ip->family == 4 ? 4 : 16);
	return k;
}

static bool vip_has(const struct lb_vip_params *vip, unsigned int protocol)
{
	return vip->protocol == LB_ANY || vip->protocol == protocol;
}

static int add_vip(struct lb_config *c, const struct lb_params *p, unsigned int v, struct err *err)
{
	const struct lb_vip_params *vip = vip_at(p, v);
	struct lb_key key = make_key(&vip->address, 0, 0);
	uint32_t had;
	char path[64];

	lb_map_add(&c->by_vip, &key, LB_VIP_ADDRESS);
	for (unsigned int i = 0; i < RTE_DIM(protocols); i++) {
		if (!vip_has(vip, i))
			continue;
		key = make_key(&vip->address, protocols[i], (uint16_t)vip->port);
		had = lb_map_add(&c->by_vip, &key, v);
		if (had == LB_NOT_FOUND)
			continue;
		snprintf(path, sizeof(path), "params.vips[%u]", v);
		return err_set(err, EINVAL, path, "the same address, protocol and port as vips[%u]",
			       had);
	}
	return 0;
}

static void set_backend(struct lb_backend *b, const struct lb_params *p, const struct lb_member *m)
{
	const struct lb_vip_params *vip = vip_at(p, m->vip);
	unsigned int bytes = vip->address.family == 4 ? 4 : 16;

	memcpy(b->addr, m->params.address.addr, bytes);
	memcpy(b->vip_addr, vip->address.addr, bytes);
	b->vip = m->vip;
	b->gone = m->removed || m->down;
	b->has_mac = has_mac(&m->params);
	memcpy(&b->mac, &m->params.mac, sizeof(b->mac));
	if (p->mode == LB_DSR) {
		memcpy(b->addr, b->vip_addr, bytes); /* the backend answers as the VIP itself */
		return;
	}
	if (m->params.port && m->params.port != vip->port) {
		b->port = rte_cpu_to_be_16((uint16_t)m->params.port);
		b->vip_port = rte_cpu_to_be_16((uint16_t)vip->port);
	}
	b->ip_delta = csum_delta(b->vip_addr, b->addr, bytes);
	b->l4_delta = b->ip_delta;
	if (b->port)
		b->l4_delta += csum_delta(&b->vip_port, &b->port, 2);
}

/*
 * The way back knows only the backend's address and port, on whatever worker it comes, so one
 * such pair must belong to one VIP.
 */
static int add_way_back(struct lb_config *c, const struct lb_params *p,
			const struct lb_members *members, unsigned int i, struct err *err)
{
	const struct lb_member *m = &members->list[i];
	const struct lb_vip_params *vip = vip_at(p, m->vip);
	uint64_t port = m->params.port ? m->params.port : vip->port;
	char text[INET6_ADDRSTRLEN], path[64];
	struct lb_key key;
	uint32_t had;

	for (unsigned int proto = 0; proto < RTE_DIM(protocols); proto++) {
		if (!vip_has(vip, proto))
			continue;
		key = make_key(&m->params.address, protocols[proto], (uint16_t)port);
		had = lb_map_add(&c->by_backend, &key, i);
		/* Late answers of a removed backend are translated too, unless it serves anew. */
		if (had == LB_NOT_FOUND || m->removed ||
		    (members->list[had].vip != m->vip && p->mode == LB_DSR))
			continue;
		address_text(&m->params.address, text, sizeof(text));
		snprintf(path, sizeof(path), "params.vips[%u].backends", m->vip);
		return err_set(err, EINVAL, path,
			       "backend %s port %u is already a backend of vips[%u]; a backend and "
			       "port may serve one VIP once",
			       text, (unsigned int)port, members->list[had].vip);
	}
	return 0;
}

static int fill_vip(struct lb_config *c, const struct lb_members *members, unsigned int v)
{
	struct maglev_backend *list = calloc(members->count + 1, sizeof(*list));
	unsigned int n = 0;
	int rc;

	if (!list)
		return -ENOMEM;
	for (unsigned int i = 0; i < members->count; i++) {
		const struct lb_member *m = &members->list[i];
		size_t used;

		if (m->vip != v || m->draining || m->removed || m->down)
			continue;
		list[n].weight = (uint32_t)m->params.weight;
		list[n].value = (uint16_t)i;
		address_text(&m->params.address, list[n].name, sizeof(list[n].name));
		used = strlen(list[n].name);
		snprintf(list[n].name + used, sizeof(list[n].name) - used, " %u",
			 (unsigned int)m->params.port);
		n++;
	}
	rc = maglev_fill(c->maglev + (size_t)v * c->m, c->m, list, n);
	free(list);
	return rc;
}

static int config_alloc(struct lb_config *c, const struct lb_params *p, unsigned int members)
{
	c->m = (uint32_t)p->table_size;
	c->n_vips = (unsigned int)p->vips.count;
	c->n_backends = members;
	c->backends = aligned_alloc(64, (members + 1) * sizeof(*c->backends));
	c->maglev = malloc(((size_t)c->n_vips * c->m + 1) * sizeof(*c->maglev));
	if (!c->backends || !c->maglev || lb_map_init(&c->by_vip, c->n_vips * 3) ||
	    lb_map_init(&c->by_backend, members * 2))
		return -ENOMEM;
	memset(c->backends, 0, (members + 1) * sizeof(*c->backends));
	return 0;
}

static int add_member(struct lb_config *c, const struct lb_params *p,
		      const struct lb_members *members, unsigned int i, struct err *err)
{
	const struct lb_member *m = &members->list[i];
	char path[64];
	int rc;

	snprintf(path, sizeof(path), "params.vips[%u].backends", m->vip);
	rc = check_member(p, m, path, err);
	if (!rc)
		rc = add_way_back(c, p, members, i, err);
	if (!rc)
		set_backend(&c->backends[i], p, m);
	return rc;
}

static int config_fill(struct lb_config *c, const struct lb_params *p,
		       const struct lb_members *members, struct err *err)
{
	int rc = 0;

	for (unsigned int v = 0; v < c->n_vips && !rc; v++) {
		rc = check_vip(p, v, err);
		if (!rc)
			rc = add_vip(c, p, v, err);
	}
	/* Those that serve first: where an address is claimed twice, they win. */
	for (unsigned int removed = 0; removed < 2; removed++)
		for (unsigned int i = 0; i < members->count && !rc; i++)
			if (members->list[i].removed == removed)
				rc = add_member(c, p, members, i, err);
	for (unsigned int v = 0; v < c->n_vips && !rc; v++)
		if (fill_vip(c, members, v))
			rc = err_set(err, ENOMEM, "params.vips", "out of memory");
	return rc;
}

int lb_config_build(const struct lb_params *p, const struct lb_members *members,
		    struct lb_config **out, struct err *err)
{
	struct lb_config *c = calloc(1, sizeof(*c));
	int rc;

	if (!c || config_alloc(c, p, members->count))
		rc = err_set(err, ENOMEM, "params.vips", "out of memory");
	else
		rc = config_fill(c, p, members, err);
	if (rc) {
		lb_config_free(c);
		return rc;
	}
	*out = c;
	return 0;
}

void lb_config_free(void *config)
{
	struct lb_config *c = config;

	if (!c)
		return;
	free(c->backends);
	free(c->maglev);
	free(c->by_vip.slots);
	free(c->by_backend.slots);
	free(c);
}
