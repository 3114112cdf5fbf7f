/* SPDX-License-Identifier: Apache-2.0 */
#include "claim.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int claim_device(const char *devargs)
{
	const char *iface = strstr(devargs, ",iface=");
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd, len;

	if (!iface)
		return -1;
	iface += strlen(",iface=");
	/* A leading NUL makes the name abstract (unix(7)); its length counts, not a terminator. */
	len = snprintf(addr.sun_path + 1, sizeof(addr.sun_path) - 1, "headrace-port-%.*s",
		       (int)strcspn(iface, ","), iface);
	if (len >= (int)sizeof(addr.sun_path) - 1)
		len = sizeof(addr.sun_path) - 2;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1; /* a convenience only: no reason not to run */
	if (!bind(fd, (struct sockaddr *)&addr,
		  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len)))
		return fd;
	len = errno;
	close(fd);
	return len == EADDRINUSE ? -EADDRINUSE : -1;
}
