/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "vnf.h"

static const char *const learn_names[] = {"fpm", "kernel", "none", NULL}; /* enum router_learn */

static const struct param neighbour_params[] = {
	{.name = "address", .type = PARAM_IP, .required = true,
	 .offset = offsetof(struct router_neighbour_params, address), .doc = "its address"},
	{.name = "mac", .type = PARAM_MAC, .required = true,
	 .offset = offsetof(struct router_neighbour_params, mac), .doc = "its MAC"},
	{0},
};

static const struct param interface_params[] = {
	{.name = "name", .type = PARAM_STRING, .required = true,
	 .offset = offsetof(struct router_interface_params, name),
	 .doc = "its name in the VNF's network namespace"},
	{.name = "port", .type = PARAM_UINT, .max = ROUTER_PORTS - 1,
	 .offset = offsetof(struct router_interface_params, port),
	 .doc = "the port (edge and input of that number) whose link it is on"},
	{.name = "mac", .type = PARAM_MAC, .required = true,
	 .offset = offsetof(struct router_interface_params, mac),
	 .doc = "its MAC: what comes in for it is this VNF's"},
	{.name = "addresses", .type = PARAM_IP, .list = true,
	 .offset = offsetof(struct router_interface_params, addresses),
	 .doc = "without netns: addresses with their prefix lengths"},
	{.name = "neighbours", .type = PARAM_OBJECT, .list = true, .fields = neighbour_params,
	 .fields_size = sizeof(struct router_neighbour_params),
	 .offset = offsetof(struct router_interface_params, neighbours),
	 .doc = "without netns: who is on the link"},
	{0},
};

static const struct param vnf_params[] = {
	{.name = "name", .type = PARAM_STRING, .required = true,
	 .offset = offsetof(struct router_vnf_params, name), .doc = "the VNF's name"},
	{.name = "netns", .type = PARAM_FILE, .offset = offsetof(struct router_vnf_params, netns),
	 .doc = "the VNF's network namespace, as /run/netns/NAME: its links, addresses and neighbours "
		"are learnt by rtnetlink, and FPM is listened for there, on 127.0.0.1. Without one "
		"they are as given, interface N (from 0) has index N + 1, and FPM is listened for "
		"in the engine's own namespace"},
	{.name = "learn", .type = PARAM_ENUM, .choices = learn_names, .def = "\"fpm\"",
	 .offset = offsetof(struct router_vnf_params, learn),
	 .doc = "where routes come from: fpm, FRR's zebra with -M dplane_fpm_nl; kernel, the VNF's main "
		"routing table by rtnetlink; none"},
	{.name = "fpm_port", .type = PARAM_UINT, .min = 1, .max = 65535, .def = "2620",
	 .offset = offsetof(struct router_vnf_params, fpm_port), .doc = "TCP port of FPM"},
	{.name = "hold_s", .type = PARAM_DOUBLE, .max = 86400, .def = "30", .unit = "s",
	 .offset = offsetof(struct router_vnf_params, hold_s),
	 .doc = "how long routes are kept after their session ended, or not announced in a new one"},
	{.name = "interfaces", .type = PARAM_OBJECT, .list = true, .required = true,
	 .fields = interface_params, .fields_size = sizeof(struct router_interface_params),
	 .offset = offsetof(struct router_vnf_params, interfaces), .doc = "the VNF's interfaces"},
	{0},
};

const struct param router_param_table[] = {
	{.name = "vnfs", .type = PARAM_OBJECT, .list = true, .required = true, .fields = vnf_params,
	 .fields_size = sizeof(struct router_vnf_params),
	 .offset = offsetof(struct router_params, vnfs),
	 .doc = "the VNFs that are forwarded for, each with a table (VRF) of its own"},
	{.name = "nodes", .type = PARAM_UINT, .min = 1024, .max = 16777216, .def = "1048576",
	 .unit = "nodes", .offset = offsetof(struct router_params, nodes),
	 .doc = "bound on nodes (3 KB each, taken as used) of the tables together; 900,000 IPv4 routes "
		"take about 45,000. Each VNF is sure of an equal part of them, as of the 65,535 next "
		"hops, and gets more while the others' parts stay free"},
	{.name = "objects", .type = PARAM_UINT, .min = 1, .max = 16777216, .def = "65536",
	 .offset = offsetof(struct router_params, objects),
	 .doc = "bound, for each VNF, on next-hop objects (some 600 B each), and on neighbours; twice as "
		"many of a kernel's addresses, links' prefixes and neighbours together. 1024 of the "
		"objects may be groups"},
	{.name = "punt_pps", .type = PARAM_UINT, .min = 1, .max = 1e9, .def = "100000",
	 .unit = "packets/s", .offset = offsetof(struct router_params, punt_pps),
	 .doc = "bound on packets to the VNFs, all together; more are dropped. Half of it is shared out "
		"evenly, so that no VNF's packets keep another's away"},
	{.name = "verify_checksum", .type = PARAM_BOOL, .def = "true",
	 .offset = offsetof(struct router_params, verify_checksum),
	 .doc = "drop IPv4 packets with a wrong header checksum, as RFC 1812 demands"},
	{0},
};

static int mac_add(struct router *r, uint64_t key, uint16_t interface, uint16_t vnf)
{
	unsigned int at = router_mac_slot(key);

	for (; r->macs[at].key; at = (at + 1) % MAC_SLOTS)
		if (r->macs[at].key == key)
			return -EEXIST;
	r->macs[at] = (struct mac_slot){key, interface, vnf};
	return 0;
}

static int add_interface(struct router *r, unsigned int vnf, const struct router_interface_params *p,
			 const char *path, struct err *err)
{
	struct router_interface *i = &r->interfaces[r->n_interfaces];

	if (r->n_interfaces == ROUTER_INTERFACES_MAX)
		return err_set(err, EINVAL, path, "is one too many; allowed: %d interfaces in all",
			       ROUTER_INTERFACES_MAX);
	if (!*p->name || strlen(p->name) >= sizeof(i->name))
		return err_set(err, EINVAL, path, "name \"%.40s\"; allowed: 1 to 15 characters", p->name);
	if (p->mac.bytes[0] & 1)
		return err_set(err, EINVAL, path, "mac is a group address; one station's is wanted");
	i->edge = (uint8_t)p->port;
	i->vnf = (uint16_t)vnf;
	memcpy(i->mac, p->mac.bytes, sizeof(i->mac));
	snprintf(i->name, sizeof(i->name), "%s", p->name);
	if (mac_add(r, router_mac_key(i->mac, i->edge), (uint16_t)r->n_interfaces, i->vnf))
		return err_set(err, EEXIST, path, "mac is another interface's on port %u", i->edge);
	r->n_interfaces++;
	return 0;
}

static struct address address_of(const struct param_ip *ip)
{
	struct address a = {.ipv6 = ip->family == 6, .len = ip->len};

	memcpy(a.bytes, ip->addr, address_bytes(&a));
	return a;
}

/* Without a namespace nobody tells: the interfaces are as the plan has them. */
static void add_static(struct vnf *v, const struct router_vnf_params *p)
{
	const struct router_interface_params *list = p->interfaces.items;

	for (unsigned int i = 0; i < p->interfaces.count; i++) {
		const struct param_ip *addresses = list[i].addresses.items;
		const struct router_neighbour_params *n = list[i].neighbours.items;
		int ifindex = (int)i + 1;

		vnf_link(v, list[i].name, ifindex, true);
		for (size_t j = 0; j < list[i].addresses.count; j++) {
			struct address a = address_of(&addresses[j]);

			vnf_address_put(v, ifindex, &a);
		}
		for (size_t j = 0; j < list[i].neighbours.count; j++) {
			struct address a = address_of(&n[j].address);

			vnf_neighbour_put(v, ifindex, &a, n[j].mac.bytes);
		}
	}
}

static int check_static(const struct router_vnf_params *p, const char *path, struct err *err)
{
	const struct router_interface_params *list = p->interfaces.items;

	for (unsigned int i = 0; i < p->interfaces.count; i++)
		if (p->netns && (list[i].addresses.count || list[i].neighbours.count))
			return err_set(err, EINVAL, path,
				       "interfaces[%u] has addresses or neighbours; with netns they are "
				       "the kernel's to tell", i);
	if (p->learn == LEARN_KERNEL && !p->netns)
		return err_set(err, EINVAL, path, "learn: kernel needs a netns");
	return 0;
}

static int add_vnf(struct router *r, const struct router_vnf_params *p, struct err *err)
{
	unsigned int index = r->n_vnfs;
	const struct router_interface_params *list = p->interfaces.items;
	char path[64];
	int rc;

	snprintf(path, sizeof(path), "params.vnfs[%u]", index);
	for (unsigned int i = 0; i < index; i++)
		if (!strcmp(r->vnfs[i].name, p->name))
			return err_set(err, EEXIST, path, "name \"%.31s\" is given twice", p->name);
	if (!*p->name || strlen(p->name) > 31)
		return err_set(err, EINVAL, path, "name \"%.40s\"; allowed: 1 to 31 characters", p->name);
	rc = check_static(p, path, err);
	for (unsigned int i = 0; i < p->interfaces.count && !rc; i++) {
		snprintf(path, sizeof(path), "params.vnfs[%u].interfaces[%u]", index, i);
		rc = add_interface(r, index, &list[i], path, err);
	}
	if (rc)
		return rc;
	r->n_vnfs++;
	rc = vnf_init(&r->vnfs[index], r, index, p, err);
	return rc;
}

int router_configure(struct router *r, const struct router_params *p, struct err *err)
{
	const struct router_vnf_params *list = p->vnfs.items;
	int rc = 0;

	if (!p->vnfs.count || p->vnfs.count > ROUTER_VNFS_MAX)
		return err_set(err, EINVAL, "params.vnfs", "%zu entries; allowed: 1 to %d",
			       p->vnfs.count, ROUTER_VNFS_MAX);
	for (size_t i = 0; i < p->vnfs.count && !rc; i++)
		rc = add_vnf(r, &list[i], err);
	/* When all MACs are known: a neighbour may be another VNF. */
	for (size_t i = 0; i < p->vnfs.count && !rc; i++)
		if (!list[i].netns)
			add_static(&r->vnfs[i], &list[i]);
	return rc;
}
