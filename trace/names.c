/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "names.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int add_device(struct names *n, uint32_t netns, uint32_t ifindex, const char *name)
{
	struct device_name *d;

	for (unsigned int i = 0; i < n->n_devices; i++)
		if (n->devices[i].netns == netns && n->devices[i].ifindex == ifindex)
			return 0;
	d = realloc(n->devices, (n->n_devices + 1) * sizeof(*d));
	if (!d)
		return -ENOMEM;
	n->devices = d;
	d += n->n_devices++;
	d->netns = netns;
	d->ifindex = ifindex;
	snprintf(d->name, sizeof(d->name), "%s", name);
	return 0;
}

static int add_netns(struct names *n, uint32_t inum, const char *name)
{
	struct netns_name *s;

	s = realloc(n->netns, (n->n_netns + 1) * sizeof(*s));
	if (!s)
		return -ENOMEM;
	n->netns = s;
	s += n->n_netns++;
	s->inum = inum;
	snprintf(s->name, sizeof(s->name), "%s", name);
	return 0;
}

static int collect_devices(struct names *n, uint32_t inum)
{
	struct if_nameindex *list = if_nameindex();
	int rc = 0;

	if (!list)
		return -errno;
	for (struct if_nameindex *i = list; i->if_index && !rc; i++)
		rc = add_device(n, inum, i->if_index, i->if_name);
	if_freenameindex(list);
	return rc;
}

/* The namespace behind a file, once. One that vanishes meanwhile is no error. */
static int collect_netns(struct names *n, const char *path, const char *name, uint32_t *seen,
			 unsigned int *n_seen, unsigned int max)
{
	struct stat st;
	int fd, rc = 0;

	if (stat(path, &st))
		return 0;
	for (unsigned int i = 0; i < *n_seen; i++)
		if (seen[i] == st.st_ino)
			return 0;
	if (*n_seen == max)
		return 0;
	seen[(*n_seen)++] = st.st_ino;
	if (!strcmp(names_netns(n, st.st_ino), ""))
		rc = add_netns(n, st.st_ino, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return rc;
	if (!rc && !setns(fd, CLONE_NEWNET))
		rc = collect_devices(n, st.st_ino);
	close(fd);
	return rc;
}

static int each_netns(struct names *n, const char *dir, const char *below, uint32_t *seen,
		      unsigned int *n_seen, unsigned int max)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	char path[512], name[300];
	int rc = 0;

	if (!d)
		return 0;
	while (!rc && (e = readdir(d))) {
		if (e->d_name[0] == '.' || (*below && !isdigit((unsigned char)e->d_name[0])))
			continue;
		snprintf(path, sizeof(path), "%s/%s%s", dir, e->d_name, below);
		snprintf(name, sizeof(name), *below ? "pid %s" : "%s", e->d_name);
		rc = collect_netns(n, path, name, seen, n_seen, max);
	}
	closedir(d);
	return rc;
}

int names_collect(struct names *n)
{
	uint32_t seen[4096];
	unsigned int n_seen = 0;
	int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), rc;

	if (home < 0)
		return -errno;
	rc = collect_netns(n, "/proc/self/ns/net", "host", seen, &n_seen, 4096);
	if (!rc)
		rc = each_netns(n, "/run/netns", "", seen, &n_seen, 4096);
	if (!rc)
		rc = each_netns(n, "/proc", "/ns/net", seen, &n_seen, 4096);
	if (setns(home, CLONE_NEWNET) && !rc)
		rc = -errno;
	close(home);
	return rc;
}

void names_free(struct names *n)
{
	free(n->devices);
	free(n->netns);
	btf__free(n->btf);
	memset(n, 0, sizeof(*n));
}

const char *names_device(const struct names *n, uint32_t netns, uint32_t ifindex)
{
	for (unsigned int i = 0; i < n->n_devices; i++)
		if (n->devices[i].netns == netns && n->devices[i].ifindex == ifindex)
			return n->devices[i].name;
	return "";
}

const char *names_netns(const struct names *n, uint32_t inum)
{
	for (unsigned int i = 0; i < n->n_netns; i++)
		if (n->netns[i].inum == inum)
			return n->netns[i].name;
	return "";
}

const char *names_drop_reason(struct names *n, uint32_t reason)
{
	static const char prefix[] = "SKB_DROP_REASON_";
	const struct btf_type *t;
	const char *name;
	int id;

	if (!n->btf)
		n->btf = btf__load_vmlinux_btf();
	id = n->btf ? btf__find_by_name_kind(n->btf, "skb_drop_reason", BTF_KIND_ENUM) : -1;
	if (id < 0)
		return "";
	t = btf__type_by_id(n->btf, id);
	for (unsigned int i = 0; i < btf_vlen(t); i++) {
		if ((uint32_t)btf_enum(t)[i].val != reason)
			continue;
		name = btf__name_by_offset(n->btf, btf_enum(t)[i].name_off);
		return strncmp(name, prefix, sizeof(prefix) - 1) ? name : name + sizeof(prefix) - 1;
	}
	return "";
}

uint64_t names_symbol(const char *symbol)
{
	FILE *f = fopen("/proc/kallsyms", "re");
	unsigned long long address;
	uint64_t found = 0;
	char line[512], name[256];

	if (!f)
		return 0;
	while (!found && fgets(line, sizeof(line), f))
		if (sscanf(line, "%llx %*c %255s", &address, name) == 2 && !strcmp(name, symbol))
			found = address;
	fclose(f);
	return found;
}
