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

/* Bytes of the UTF-8 character that begins here (RFC 3629), or 0 when none does. */
static size_t character(const unsigned char *s)
{
	size_t more = s[0] < 0x80 ? 0 : s[0] >> 5 == 6 ? 1 : s[0] >> 4 == 14 ? 2 : s[0] >> 3 == 30 ? 3 : 4;

	if (more > 3 || s[0] == 0xc0 || s[0] == 0xc1 || s[0] > 0xf4)
		return 0;
	for (size_t i = 1; i <= more; i++)
		if (s[i] >> 6 != 2)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return more + 1;
}

void err_text(char *text)
{
	for (unsigned char *s = (unsigned char *)text; *s;) {
		size_t n = character(s);

		if (!n)
			*s = '?';
		s += n ? n : 1;
	}
}
