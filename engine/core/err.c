/* SPDX-License-Identifier: Apache-2.0 */
#include "err.h"

#include <stdio.h>
#include <string.h>

int err_set(struct err *err, int code, const char *path, const char *fmt, ...)
{
	va_list ap;

	snprintf(err->path, sizeof(err->path), "%s", path ? path : "");
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	return -code;
}

void err_add(struct err *err, const char *fmt, ...)
{
	size_t used = strnlen(err->msg, sizeof(err->msg) - 1);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err->msg + used, sizeof(err->msg) - used, fmt, ap);
	va_end(ap);
}
