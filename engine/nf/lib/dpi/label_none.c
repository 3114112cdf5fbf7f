/* SPDX-License-Identifier: Apache-2.0 */
/* In place of label.c in a build without nDPI: `labels: true` is refused, so that no flow gets
 * here. */
#include "dpi.h"

#include <errno.h>

int labels_create(const struct dpi_params *p, bool flows, struct labels **out, struct err *err)
{
	return err_set(
		err, ENOTSUP, "params.labels",
		"this engine was built without nDPI: install libndpi-dev and build it again");
}

void labels_destroy(struct labels *l)
{
}

bool labels_packet(struct inspection *in)
{
	return false;
}

void labels_end(struct dpi_worker *dw, struct dpi_flow *flow)
{
}

uint8_t labels_action(const struct labels *l, const struct dpi_flow *flow)
{
	return 0;
}

const char *labels_name(void *arg, const uint16_t label[2], char *buf, unsigned int size)
{
	return "";
}

void labels_count(const struct labels *l, json_t *to)
{
}
