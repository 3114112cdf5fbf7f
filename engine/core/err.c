/* SPDX-License-Identifier: Apache-2.0 */
#include "err.h"

#include <stdio.h>

int err_set(struct err *err, int code, const char *path, const char *fmt, ...)
{
	va_list ap;

	snprintf(err->path, sizeof(err->path), "%s", path ? path : "");
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	return -code;
}
