/* SPDX-License-Identifier: Apache-2.0 */
#include "ends.h"

#include <errno.h>

#include <rte_errno.h>
#include <rte_mbuf_dyn.h>

const char *const size_class_names[SIZE_CLASSES] = {
	"64", "65-127", "128-255", "256-511", "512-1023", "1024-1518", "1519-"};

enum { OF_FORWARD, OF_REVERSE, OF_CREATED, OWNERS };

int pkt_marks_register(struct err *err)
{
	static const struct rte_mbuf_dynflag flags[] = {{.name = "headrace_reverse"},
							{.name = "headrace_created"}};

	for (unsigned int i = 0; i < RTE_DIM(flags); i++)
		if (rte_mbuf_dynflag_register_bitnum(&flags[i], PKT_REVERSE_BIT + i) < 0)
			return err_set(err, rte_errno, "", "no room in mbufs for a mark: %s",
				       rte_strerror(rte_errno));
	return 0;
}

uint64_t ends_sum(const struct ends *e)
{
	uint64_t sum = 0;

	for (unsigned int m = 0; m < RTE_DIM(e->n); m++)
		for (unsigned int c = 0; c < SIZE_CLASSES; c++)
			sum += e->n[m][c];
	return sum;
}

json_t *sizes_json(const uint64_t sizes[SIZE_CLASSES])
{
	json_t *o = json_object();

	for (unsigned int c = 0; c < SIZE_CLASSES; c++)
		if (sizes[c])
			json_object_set_new(o, size_class_names[c], json_integer((json_int_t)sizes[c]));
	return o;
}

json_t *ends_json(const struct ends *e)
{
	static const char *const names[OWNERS] = {"forward", "reverse", "created"};
	uint64_t of[OWNERS][SIZE_CLASSES] = {0};
	json_t *o = json_object();

	for (unsigned int m = 0; m < RTE_DIM(e->n); m++)
		for (unsigned int c = 0; c < SIZE_CLASSES; c++)
			of[RTE_MIN(m, (unsigned int)OF_CREATED)][c] += e->n[m][c];
	for (unsigned int k = 0; k < OWNERS; k++) {
		json_t *sizes = sizes_json(of[k]);

		if (json_object_size(sizes))
			json_object_set(o, names[k], sizes);
		json_decref(sizes);
	}
	if (json_object_size(o))
		return o;
	json_decref(o);
	return NULL;
}

void ends_put(json_t *o, const char *key, const struct ends *e)
{
	json_t *ends = ends_json(e);

	if (ends)
		json_object_set_new(o, key, ends);
}
