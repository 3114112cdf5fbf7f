/* SPDX-License-Identifier: Apache-2.0 */
#include "claim.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int claim_name(const char *name)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	size_t len = strlen(name);
	int fd, rc;

	/* A leading NUL makes the name abstract (unix(7)); its length counts, not a terminator. */
	if (len > sizeof(addr.sun_path) - 1)
		len = sizeof(addr.sun_path) - 1;
	memcpy(addr.sun_path + 1, name, len);
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	if (!bind(fd, (struct sockaddr *)&addr,
		  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len)))
		return fd;
	rc = errno;
	close(fd);
	return rc == EADDRINUSE ? -EADDRINUSE : -1;
}

int claim_device(const char *devargs)
{
	const char *iface = strstr(devargs, ",iface=");
	char name[128];

	if (!iface)
		return -1;
	iface += strlen(",iface=");
	snprintf(name, sizeof(name), "headrace-port-%.*s", (int)strcspn(iface, ","), iface);
	return claim_name(name);
}
