/* SPDX-License-Identifier: Apache-2.0 */
/* DPDK's log while the engine starts: kept, not shown. */
#include <stdio.h>
#include <string.h>

#include <rte_common.h>
#include <rte_log.h>

#include "log.h"

static FILE *kept;
static char first_error[200];

/* The first error is the cause; what follows are its consequences, further and further up. */
static void remember(const char *text, size_t size)
{
	size_t len = RTE_MIN(size, sizeof(first_error) - 1);

	if (*first_error || rte_log_cur_msg_loglevel() > (int)RTE_LOG_ERR)
		return;
	while (len && (text[len - 1] == '\n' || text[len - 1] == ' '))
		len--;
	memcpy(first_error, text, len);
	first_error[len] = '\0';
	for (char *p = first_error; *p; p++)
		if (*p == '\n' || *p == '\t')
			*p = ' ';
}

/* rte_panic and rte_exit say their last words by the log: those are never kept. */
static ssize_t keep(void *cookie, const char *text, size_t size)
{
	(void)cookie;
	remember(text, size);
	if (rte_log_cur_msg_loglevel() <= (int)RTE_LOG_CRIT)
		fwrite(text, 1, size, stderr);
	return (ssize_t)size;
}

void log_keep(void)
{
	static const cookie_io_functions_t functions = {.write = keep};

	kept = fopencookie(NULL, "w", functions);
	if (kept)
		rte_openlog_stream(kept);
}

void log_forget(void)
{
	first_error[0] = '\0';
}

void log_release(void)
{
	if (!kept)
		return;
	rte_openlog_stream(NULL);
	fclose(kept);
	kept = NULL;
	log_forget();
}

void log_explain(struct err *err)
{
	if (*first_error)
		err_add(err, "; DPDK says: %s", first_error);
}
