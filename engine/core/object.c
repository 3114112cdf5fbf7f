/* SPDX-License-Identifier: Apache-2.0 */
#include "object.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define OBJECTS_MAX 16
#define NAME_MOST 31 /* nf.name */

static char *loaded[OBJECTS_MAX];
static unsigned int n_loaded;

bool nf_object_loaded(const char *file)
{
	for (unsigned int i = 0; i < n_loaded; i++)
		if (!strcmp(loaded[i], file))
			return true;
	return false;
}

static bool is_name(const char *name)
{
	size_t len = name ? strlen(name) : 0;

	if (!len || len > NAME_MOST || !islower((unsigned char)*name))
		return false;
	return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

static unsigned int length(const char *const *list)
{
	unsigned int n = 0;

	while (list && list[n])
		n++;
	return n;
}

/* What the compiler does not see, and the engine relies on. */
static int check_ops(const struct nf_ops *ops, const char *path, struct err *err)
{
	if (!is_name(ops->name))
		return err_set(err, EINVAL, path,
			       "its name is \"%.40s\"; allowed: small letters, digits and \"-\", at most "
			       "%d, a letter first", ops->name ? ops->name : "", NAME_MOST);
	if (nf_find(ops->name))
		return err_set(err, EINVAL, path, "there is a function \"%s\" already; allowed: another "
			       "name", ops->name);
	if (!ops->process || !ops->params)
		return err_set(err, EINVAL, path, "function \"%s\" has no %s", ops->name,
			       ops->process ? "params (a table may be empty)" : "process");
	if (length(ops->drops) > NF_DROPS_MAX || length(ops->counters) > NF_COUNTERS_MAX ||
	    length(ops->edges) > NF_EDGES_MAX)
		return err_set(err, EINVAL, path,
			       "function \"%s\" has %u drop reasons, %u counters and %u edges; allowed: "
			       "%d, %d and %d", ops->name, length(ops->drops), length(ops->counters),
			       length(ops->edges), NF_DROPS_MAX, NF_COUNTERS_MAX, NF_EDGES_MAX);
	return 0;
}

static int check_object(const struct nf_object *o, const char *path, struct err *err)
{
	if (!o)
		return err_set(err, EINVAL, path, "has no function; allowed: a shared object with "
			       "NF_OBJECT(...)");
	if (o->abi != NF_ABI)
		return err_set(err, EINVAL, path,
			       "was built for version %u of the functions' interface, and this engine has "
			       "%u; build it again with this engine's headers", o->abi, NF_ABI);
	if (o->dpdk != NF_DPDK)
		return err_set(err, EINVAL, path,
			       "was built with the headers of DPDK %u.%02u, and this engine with %u.%02u",
			       o->dpdk >> 8, o->dpdk & 0xff, NF_DPDK >> 8, NF_DPDK & 0xff);
	return check_ops(o->ops, path, err);
}

int nf_object_load(const char *file, const char *path, struct err *err)
{
	const struct nf_object *object;
	void *handle;
	int rc;

	if (nf_object_loaded(file))
		return 0;
	if (*file != '/')
		return err_set(err, EINVAL, path, "got \"%.80s\"; allowed: an absolute path", file);
	if (n_loaded == OBJECTS_MAX)
		return err_set(err, EINVAL, path, "one too many; allowed: %d", OBJECTS_MAX);
	handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return err_set(err, EINVAL, path, "%s", dlerror());
	object = dlsym(handle, NF_OBJECT_SYMBOL);
	rc = check_object(object, path, err);
	if (!rc) {
		loaded[n_loaded] = strdup(file);
		if (!loaded[n_loaded])
			rc = err_set(err, ENOMEM, path, "out of memory");
	}
	if (rc) {
		dlclose(handle);
		return rc;
	}
	n_loaded++;
	nf_register(object->ops); /* stays until the program ends */
	return 0;
}
