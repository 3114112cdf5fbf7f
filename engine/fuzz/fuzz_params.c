/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of every NF and link: the first byte chooses the table, the rest is JSON. */
#include "fuzz.h"

#include <jansson.h>
#include <stdlib.h>

#include "core/link.h"
#include "core/nf.h"

static const struct param *table_at(unsigned int i, size_t *conf_size)
{
	const struct nf_ops *nf;
	const struct link_ops *link;
	unsigned int nfs = 0;

	while (nf_at(nfs))
		nfs++;
	nf = nf_at(i);
	link = i >= nfs ? link_at(i - nfs) : NULL;
	*conf_size = nf ? nf->conf_size : link ? link->conf_size : 0;
	return nf ? nf->params : link ? link->params : NULL;
}

static void parse(const struct param *table, const json_t *json, void *conf)
{
	struct err err = {0};

	if (param_parse(table, json, "params", conf, &err)) {
		if (!err.path[0] || !err.msg[0])
			abort();
		return;
	}
	param_free(table, conf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct param *table;
	size_t conf_size;
	json_t *json;
	void *conf;

	if (size < 2)
		return 0;
	table = table_at(data[0], &conf_size);
	json = json_loadb((const char *)data + 1, size - 1, 0, NULL);
	if (!table || !json) {
		json_decref(json);
		return 0;
	}
	conf = calloc(1, conf_size);
	if (!conf)
		abort();
	parse(table, json, conf);
	free(conf);
	json_decref(json);
	return 0;
}
