/* SPDX-License-Identifier: Apache-2.0 */
#include "elastic_plan.h"

#include <stdio.h>
#include <stdlib.h>

#define RING(spare)                                                                                \
	"{\"type\":\"ring\",\"params\":{\"size\":128,\"on_full\":\"wait\",\"spare\":" spare "}}"
#define MEM "{\"type\":\"mem\"}"
#define BASE                                                                                       \
	"{\"engine\":{\"hugepages\":false,\"mbufs\":8191},\"links\":{\"outward\":" MEM ",\"answers\":" MEM \
	",\"left\":" MEM ",\"back\":" MEM ",\"wire\":" RING("0") ",\"in\":" RING("0") ",\"away\":"      \
	RING("1") ",\"home\":" RING("1") "},\"nfs\":{\"first\":{},"                                  \
	"\"acl\":{\"type\":\"acl\",\"params\":{\"rules\":[{\"action\":\"deny\",\"dport\":[6]},"      \
	"{\"action\":\"permit\"}]}},"                                                              \
	"\"nat\":{\"type\":\"nat\",\"params\":{\"seed\":1,\"pool\":[\"192.0.2.1\",\"192.0.2.2\"],"  \
	"\"udp_timeout_s\":0.2,\"transitory_timeout_s\":0.1,"          \
	"\"established_timeout_s\":0.2,"                                                             \
	"\"fragment_timeout_s\":0.1,\"sessions\":20000}},"                                         \
	"\"fw\":{\"type\":\"firewall\",\"params\":{\"rules\":[{\"action\":\"permit\"}],\"flows\":20000,"  \
	"\"udp_timeout_s\":0.2,\"syn_timeout_s\":0.1,\"closing_timeout_s\":0.1,"                   \
	"\"fragment_timeout_s\":0.1,\"half_open\":8000}},"                                         \
	"\"lb\":{\"type\":\"lb\",\"params\":{\"table_size\":251,\"idle_timeout_s\":0.2,"            \
	"\"flows\":20000,\"vips\":[{\"address\":\"203.0.113.1\",\"backends\":[{\"address\":"        \
	"\"198.51.100.1\"},{\"address\":\"198.51.100.2\"}]}]}},"                                    \
	"\"mon\":{\"type\":\"monitor\",\"params\":{\"idle_timeout_s\":0.1,\"flows\":20000}}},"      \
	"\"segments\":[{\"name\":\"ends\",\"cpus\":[0],\"inputs\":["                               \
	"{\"link\":\"outward\",\"to\":\"link:wire\"},{\"link\":\"answers\",\"to\":\"link:in\","     \
	"\"direction\":\"reverse\"},{\"link\":\"away\",\"to\":\"link:left\"},"                     \
	"{\"link\":\"home\",\"to\":\"link:back\"}]}]}"

static const char *const names[] = {"first", "acl", "nat", "fw", "lb", "mon"};
static const char *const edges[] = {"out", "pass", "out", "pass", "out", "out"};

static bool is_cut(const struct elastic_partition *p, unsigned int behind)
{
	return behind == ELASTIC_FUNCTIONS - 1 || (p->cuts >> behind & 1);
}

static json_t *to_link(const char *kind, unsigned int i, const char *end, bool ends)
{
	return ends ? json_sprintf("link:%s", end) : json_sprintf("link:%s%u", kind, i);
}

static json_t *node(const struct elastic_partition *p, unsigned int i)
{
	json_t *forward = is_cut(p, i) ? to_link("f", i, "away", i == ELASTIC_FUNCTIONS - 1)
				       : json_string(names[i + 1]);
	json_t *reverse = !i || is_cut(p, i - 1) ? to_link("r", i - 1, "home", !i)
						 : json_string(names[i - 1]);

	return json_pack("{s:{s:o}, s:{s:o}}", "forward", edges[i], forward, "reverse", edges[i],
			 reverse);
}

static json_t *input(const char *kind, unsigned int i, const char *end, bool ends, const char *to,
		     const char *direction)
{
	json_t *link = ends ? json_string(end) : json_sprintf("%s%u", kind, i);

	return json_pack("{s:o, s:s, s:s}", "link", link, "to", to, "direction", direction);
}

static json_t *segment(const struct elastic_partition *p, unsigned int from, unsigned int to)
{
	json_t *cpus = json_array(), *nodes = json_object(), *name;

	for (unsigned int i = 0; i < (p->elastic ? p->replicas[from] : 1); i++)
		json_array_append_new(cpus, json_integer(0));
	for (unsigned int i = from; i <= to; i++)
		json_object_set_new(nodes, names[i], node(p, i));
	name = p->named ? json_sprintf("%s-%u", names[from], p->named)
	       : from ? json_sprintf("%s-%s", names[from], names[to]) : json_string("chain");
	return json_pack("{s:o, s:o, s:o, s:i, s:i, s:[o,o]}", "name", name, "cpus", cpus, "nodes", nodes,
			 "burst", (int)p->burst, "elastic", p->elastic ? ELASTIC_MOST : 0, "inputs",
			 input("f", from - 1, "wire", !from, names[from], "forward"),
			 input("r", to, "in", to == ELASTIC_FUNCTIONS - 1, names[to], "reverse"));
}

json_t *elastic_plan(const struct elastic_partition *p)
{
	json_t *plan = json_loads(BASE, 0, NULL), *links = json_object_get(plan, "links");
	json_t *first = json_object_get(json_object_get(plan, "nfs"), "first");
	unsigned int from = 0;

	json_object_set_new(first, "type", json_string(p->first));
	if (p->params)
		json_object_set_new(first, "params", json_loads(p->params, 0, NULL));
	for (unsigned int i = 0; i < ELASTIC_FUNCTIONS; i++) {
		for (unsigned int d = 0; d < 2 && i < ELASTIC_FUNCTIONS - 1; d++) {
			char name[8];

			snprintf(name, sizeof(name), "%c%u", "fr"[d], i);
			json_object_set_new(links, name,
					    json_loads(p->elastic ? RING("4") : RING("1"), 0, NULL));
		}
		if (!is_cut(p, i))
			continue;
		json_array_append_new(json_object_get(plan, "segments"), segment(p, from, i));
		from = i + 1;
	}
	return plan;
}
