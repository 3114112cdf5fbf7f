/* SPDX-License-Identifier: Apache-2.0 */
#include "discard.h"

#include <linux/close_range.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

/* Beside what each thread has of the program's and its libraries' own, which takes more than this. */
#define STACK_BYTES (64 << 10)

struct last_holder {
	int fd;
	bool holds;
	sem_t ready, go;
};

static void *hold(void *arg)
{
	struct last_holder *h = arg;
	unsigned int fd = (unsigned int)h->fd;

	/* The engine has its own descriptors of all others still: these calls end nothing. */
	h->holds = !close_range(fd + 1, ~0u, CLOSE_RANGE_UNSHARE);
	if (h->holds && fd)
		close_range(0, fd - 1, 0);
	sem_post(&h->ready);
	while (sem_wait(&h->go))
		;
	free(h);
	return NULL;
}

static int start(struct last_holder *h)
{
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, (size_t)sysconf(_SC_THREAD_STACK_MIN) + STACK_BYTES);
	rc = pthread_create(&thread, &attr, hold, h);
	pthread_attr_destroy(&attr);
	return rc;
}

void discard(int fd)
{
	struct last_holder *h = calloc(1, sizeof(*h));

	if (!h)
		return;
	h->fd = fd;
	sem_init(&h->ready, 0, 0);
	sem_init(&h->go, 0, 0);
	if (start(h)) {
		free(h);
		return;
	}
	while (sem_wait(&h->ready))
		;
	if (h->holds)
		close(fd);
	sem_post(&h->go);
}
