/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm.h"

#define PAGE_BYTES 4096 /* the smallest that there is */

static pthread_mutex_t closing = PTHREAD_MUTEX_INITIALIZER; /* of mappings that lcores handed back */

static size_t packets_size(uint32_t slots, uint32_t stride)
{
	return sizeof(struct shm_region) + (size_t)SHM_RINGS * slots * stride;
}

static struct shm_map *map_new(uint32_t slots, uint32_t stride, uint32_t flows)
{
	struct shm_map *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->slots = slots;
	m->stride = stride;
	m->flows = flows;
	m->size = packets_size(slots, stride) + offload_bytes(flows);
	m->region = MAP_FAILED;
	for (int i = 0; i < SHM_FDS; i++)
		m->fd[i] = -1;
	m->client_end = -1;
	return m;
}

struct offload_area *shm_area(const struct shm_map *m)
{
	return m->flows ? (struct offload_area *)((uint8_t *)m->region +
						  packets_size(m->slots, m->stride))
			: NULL;
}

void shm_map_close(struct shm_map *m)
{
	if (!m)
		return;
	if (m->region != MAP_FAILED)
		munmap(m->region, m->size);
	for (int i = 0; i < SHM_FDS; i++)
		if (m->fd[i] >= 0)
			close(m->fd[i]);
	if (m->client_end >= 0)
		close(m->client_end);
	free(m);
}

/* Populated: a page fault on the first use of each slot would be a latency of its own. */
static bool map_memory(struct shm_map *m, int populated)
{
	m->region = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED | populated,
			 m->fd[SHM_FD_MEMORY], 0);
	return m->region != MAP_FAILED;
}

/* As populated, of pages that are there: none is made. */
static void fault_in(const struct shm_map *m)
{
	const volatile uint8_t *bytes = (const volatile uint8_t *)m->region;

	for (size_t at = 0; at < m->size; at += PAGE_BYTES)
		(void)bytes[at];
}

static bool make_wake_ups(struct shm_map *m)
{
	int ends[2];

	m->fd[SHM_FD_TO_SERVER] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (m->fd[SHM_FD_TO_SERVER] < 0 || socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends))
		return false;
	m->fd[SHM_FD_TO_CLIENT] = ends[0];
	m->client_end = ends[1];
	return !shutdown(ends[0], SHUT_RD);
}

/* Without pages, which are its client's to make: the kernel charges them to whoever does. */
static int map_create(const struct shm_conf *c, struct shm_map **out, struct err *err)
{
	uint32_t stride = (uint32_t)(sizeof(struct shm_slot) + c->slot_bytes + SHM_SLOT_ALIGN - 1) &
			  ~(uint32_t)(SHM_SLOT_ALIGN - 1);
	struct shm_map *m = map_new((uint32_t)c->slots, stride, (uint32_t)c->offload);
	int memory;

	if (!m)
		return err_set(err, ENOMEM, "params.slots", "out of memory");
	memory = m->fd[SHM_FD_MEMORY] = memfd_create("headrace-shm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (memory < 0 || ftruncate(memory, (off_t)m->size) ||
	    fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) ||
	    !make_wake_ups(m)) {
		int rc = err_set(err, errno, "params.slots", "no shared memory of %zu bytes: %s",
				 m->size, strerror(errno));

		shm_map_close(m);
		return rc;
	}
	*out = m;
	return 0;
}

static struct shm_map *map_open(const struct shm_hello *hello, const int *fds, int populated)
{
	struct shm_map *m;
	struct stat st;

	if (hello->magic != SHM_MAGIC || hello->version != SHM_VERSION || !hello->slots ||
	    (hello->slots & (hello->slots - 1)) || hello->slots > 1u << 20 ||
	    hello->stride <= sizeof(struct shm_slot) || hello->stride > 1u << 17 ||
	    hello->stride % SHM_SLOT_ALIGN || hello->flows > OFFLOAD_FLOWS_MAX ||
	    hello->kept_mb > SHM_KEPT_MB_MAX)
		return NULL;
	m = map_new(hello->slots, hello->stride, hello->flows);
	if (!m)
		return NULL;
	for (int i = 0; i < SHM_FDS; i++)
		m->fd[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 0);
	if (fstat(m->fd[SHM_FD_MEMORY], &st) || (size_t)st.st_size != m->size ||
	    !map_memory(m, populated)) {
		shm_map_close(m);
		return NULL;
	}
	return m;
}

static struct shm_map *map_again(const struct shm_map *m, int populated)
{
	struct shm_hello hello = {SHM_MAGIC, SHM_VERSION, m->slots, m->stride, m->flows, 0};

	return map_open(&hello, m->fd, populated);
}

/* A client's: sizes must fit each other, or an index would lead out of the mapping. */
struct shm_map *shm_map_open(const struct shm_hello *hello, const int *fds)
{
	return map_open(hello, fds, MAP_POPULATE);
}

struct shm_map *shm_map_again(const struct shm_map *m)
{
	return map_again(m, MAP_POPULATE);
}

/*
 * Pages can be given back (MADV_REMOVE, FALLOC_FL_PUNCH_HOLE) until nobody may map the file for writing
 * any more, which both sides have done by now. Whether all pages are there; swapped ones are counted.
 */
static bool seal(const struct shm_map *m)
{
	struct stat st;

	return !fcntl(m->fd[SHM_FD_MEMORY], F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) &&
	       !fstat(m->fd[SHM_FD_MEMORY], &st) && (size_t)st.st_blocks * 512 >= m->size;
}

/* Other memory, which no client has yet. */
int shm_renew(struct shm_state *s, struct err *err)
{
	struct shm_map *own = NULL;
	int rc = map_create(s->link->conf, &own, err);

	if (rc)
		return rc;
	shm_map_close(s->own);
	s->own = own;
	return 0;
}

/* Its client has made the pages. Lcores go over to it by themselves. */
bool shm_take_in(struct shm_state *s)
{
	struct shm_map *rx = map_again(s->own, 0), *tx = map_again(s->own, 0);

	if (!rx || !tx || !map_memory(s->own, 0) || !seal(s->own)) {
		shm_map_close(rx);
		shm_map_close(tx);
		return false;
	}
	fault_in(s->own);
	fault_in(rx);
	fault_in(tx);
	rx->serial = tx->serial = ++s->serial;
	shm_queue_offer(&s->rx, rx);
	shm_queue_offer(&s->tx, tx);
	return true;
}

/*
 * Packets that the peer has not taken yet, for who asks meanwhile: the lcore may be taking up another
 * mapping, but the one that it had is not closed in between.
 */
uint64_t shm_queue_used(const struct shm_queue *q, unsigned int ring)
{
	const struct shm_map *m;
	uint64_t used;

	pthread_mutex_lock(&closing);
	m = atomic_load_explicit(&q->map, memory_order_acquire);
	used = atomic_load_explicit(&q->at, memory_order_relaxed);
	used -= m ? atomic_load(&m->region->rings[ring].tail) : used;
	used = m && used <= m->slots ? used : 0;
	pthread_mutex_unlock(&closing);
	return used;
}

/* Packets that the peer has put there, and that were not taken yet. */
uint64_t shm_queue_unread(const struct shm_queue *q, unsigned int ring)
{
	const struct shm_map *m;
	uint64_t unread;

	pthread_mutex_lock(&closing);
	m = atomic_load_explicit(&q->map, memory_order_acquire);
	unread = m ? atomic_load(&m->region->rings[ring].head) : 0;
	unread -= m ? atomic_load_explicit(&q->at, memory_order_relaxed) : 0;
	pthread_mutex_unlock(&closing);
	return unread;
}

/* Control thread. What the lcore has not taken up yet is replaced; what it handed back is unmapped. */
void shm_queue_offer(struct shm_queue *q, struct shm_map *m)
{
	pthread_mutex_lock(&closing);
	shm_map_close(atomic_exchange(&q->next, m));
	shm_map_close(atomic_exchange(&q->retired, NULL));
	pthread_mutex_unlock(&closing);
}

/* The client's: where it tells of changed tables, from before its lcore may tell of flows there. */
void shm_queue_control(struct shm_state *s, struct shm_map *m)
{
	pthread_mutex_lock(&closing);
	shm_map_close(s->control);
	s->control = m;
	pthread_mutex_unlock(&closing);
}

void shm_tables_changed(struct link *l)
{
	struct shm_state *s = l->state;

	pthread_mutex_lock(&closing);
	if (s->control && s->control->flows)
		atomic_fetch_add(&shm_area(s->control)->tables, 1);
	pthread_mutex_unlock(&closing);
}

void shm_queue_close(struct shm_queue *q)
{
	shm_queue_offer(q, NULL);
	shm_map_close(q->map);
	q->map = NULL;
}
