/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for checkpoints, which a server keeps from one client to the next. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm.h"

int shm_kept_make(struct shm_state *s, struct err *err)
{
	const struct shm_conf *c = s->link->conf;
	size_t bytes = (size_t)c->checkpoint_mb << 20;

	if (!bytes)
		return 0;
	s->kept_fd = memfd_create("headrace-kept", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (s->kept_fd < 0 || ftruncate(s->kept_fd, (off_t)bytes) ||
	    fcntl(s->kept_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return err_set(err, errno, "params.checkpoint_mb", "no memory of %zu bytes: %s", bytes,
			       strerror(errno));
	return 0;
}

/* The same as before, when the connection alone was lost. */
static bool known(const struct shm_kept *k, const struct stat *st)
{
	return k && k->device == st->st_dev && k->inode == st->st_ino;
}

void shm_kept_take(struct shm_state *s, uint32_t mb, int fd)
{
	struct shm_kept *before = atomic_load(&s->kept), *k;
	size_t bytes = (size_t)mb << 20;
	struct stat st;

	if (fstat(fd, &st) || (size_t)st.st_size != bytes || known(before, &st))
		return;
	k = calloc(1, sizeof(*k));
	if (!k)
		return;
	k->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (k->memory == MAP_FAILED) {
		free(k);
		return;
	}
	k->bytes = bytes;
	k->device = st.st_dev;
	k->inode = st.st_ino;
	k->before = before;
	atomic_store_explicit(&s->kept, k, memory_order_release);
}

void shm_kept_close(struct shm_state *s)
{
	struct shm_kept *k = atomic_load(&s->kept);

	while (k) {
		struct shm_kept *before = k->before;

		munmap(k->memory, k->bytes);
		free(k);
		k = before;
	}
	if (s->kept_fd >= 0)
		close(s->kept_fd);
}

uint32_t shm_checkpoint_ms(const struct link *l)
{
	const struct shm_conf *c = l->conf;

	return c->role ? (uint32_t)c->checkpoint_ms : 0;
}

void *shm_kept_at(const struct link *l, size_t *bytes)
{
	const struct shm_state *s = l->state;
	const struct shm_kept *k = atomic_load_explicit(&s->kept, memory_order_acquire);

	*bytes = k ? k->bytes : 0;
	return k ? k->memory : NULL;
}
