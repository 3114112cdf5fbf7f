/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_mbuf_dyn.h>
#include <rte_memcpy.h>

#include "shm.h"

/* An lcore that did not look for so long was off its CPU, or had much to do: the kernel tells. */
#define GAP_US 20
/* The kernel keeps about so many datagrams (net.unix.max_dgram_qlen). */
#define WAKES 16

/*
 * Whoever has a descriptor may have very many epoll descriptors watch it, and each costs whoever wakes
 * by it. Where wake-ups in a row take this much of the lcore's CPU time, a pause follows each, so that
 * such a peer takes one part in WAKE_PAUSE of the lcore; it then looks by itself (WAIT_MAX_MS). One
 * alone may have been an interrupt, or a hypervisor that ran something else.
 */
#define WAKE_DEAR_NS 20000
#define WAKE_PAUSE 200
#define WAKES_MEASURED 16
#define WAKES_DEAR 4

/*
 * A client that says all the time that it sleeps has the lcore make a system call for each packet. So one
 * part in WAKE_SHARE of its time is for wake-ups, and as many at once as take WAKE_AT_ONCE_NS; those
 * beyond are moderated, as a NIC does with its interrupts: the connection's thread makes them.
 */
#define WAKE_SHARE 64
#define WAKE_AT_ONCE_NS 1000000

int shm_stamp_offset = -1;

static inline uint64_t *stamp_of(struct rte_mbuf *m)
{
	return RTE_MBUF_DYNFIELD(m, shm_stamp_offset, uint64_t *);
}

static inline uint64_t advance(struct shm_queue *q, uint64_t by)
{
	uint64_t at = shm_at(q) + by;

	atomic_store_explicit(&q->at, at, memory_order_relaxed);
	return at;
}

static inline struct shm_slot *slot_at(const struct shm_queue *q, uint64_t index)
{
	return (struct shm_slot *)(q->slots + (index & (shm_map_of(q)->slots - 1)) * shm_map_of(q)->stride);
}

/* Take up a mapping that the control thread offers; the old one goes back to it. */
static __rte_noinline bool take_up(struct shm_queue *q, unsigned int ring, bool reader)
{
	struct shm_map *m, *old;

	if (atomic_load(&q->retired))
		return shm_map_of(q);
	m = atomic_exchange(&q->next, NULL);
	if (!m)
		return shm_map_of(q);
	old = shm_map_of(q);
	atomic_store_explicit(&q->map, m, memory_order_release);
	q->ring = &m->region->rings[ring];
	q->slots = (uint8_t *)(m->region + 1) + (size_t)ring * m->slots * m->stride;
	atomic_store_explicit(&q->at, atomic_load(reader ? &q->ring->tail : &q->ring->head),
			      memory_order_relaxed);
	q->taken = atomic_load(&q->ring->tail);
	atomic_store(&q->retired, old); /* last: it may be unmapped from now on */
	return true;
}

static inline bool ready(struct shm_queue *q, unsigned int ring, bool reader)
{
	if (unlikely(atomic_load_explicit(&q->next, memory_order_relaxed)))
		return take_up(q, ring, reader);
	return shm_map_of(q);
}

static unsigned int ring_in(const struct shm_state *s)
{
	const struct shm_conf *c = s->link->conf;

	return c->role ? SHM_TO_CLIENT : SHM_TO_SERVER;
}

static uint64_t thread_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/*
 * How much of a gap between two polls the lcore was not on its CPU: the time that passed less the
 * CPU time that its thread got since this was last asked, as a share of the gap.
 */
static __rte_noinline void note_gap(struct shm_state *s, uint64_t now)
{
	uint64_t cpu = thread_cpu_ns();
	double passed = (double)(now - s->cpu_tsc) * s->ns_per_cycle;
	double gap = (double)(now - s->last_poll) * s->ns_per_cycle;
	double off = s->cpu_tsc ? passed - (double)(cpu - s->cpu_ns) : 0;

	s->gap_share = off <= 0 ? 0 : off >= gap ? 1 : off / gap;
	s->gap_start = s->last_poll;
	s->gap_end = now;
	s->cpu_tsc = now;
	s->cpu_ns = cpu;
}

static inline void note_wait(struct shm_state *s, uint64_t put, uint64_t now)
{
	uint64_t wait = put < now ? now - put : 0, from, off = 0;

	if (put < s->gap_end) {
		from = put > s->gap_start ? put : s->gap_start;
		off = (uint64_t)((double)(s->gap_end - from) * s->gap_share);
	}
	s->times.count++;
	s->times.wait += wait;
	s->times.off_cpu += off;
	hist_record(s->times.wait_ns, RTE_MIN((uint64_t)((double)wait * s->ns_per_cycle),
					      (1ull << HIST_MAX_BITS) - 1));
	hist_record(s->times.off_cpu_ns, RTE_MIN((uint64_t)((double)off * s->ns_per_cycle),
						 (1ull << HIST_MAX_BITS) - 1));
}

/*
 * A client that tells of flows tells, too, which packets it is through with: all that it had read
 * when it comes for more. What came of them is in the ring by then, or was dropped.
 */
static inline void note_done(struct shm_state *s)
{
	struct offload_area *a = shm_area(shm_map_of(&s->rx));
	uint64_t done = shm_at(&s->rx) << 32 | (uint32_t)shm_at(&s->tx);

	if (a && atomic_load_explicit(&a->done, memory_order_relaxed) != done)
		atomic_store_explicit(&a->done, done, memory_order_release);
}

struct offload_area *shm_told(struct link_rxq *rxq, uint32_t *flows, uint64_t *which)
{
	const struct shm_state *s = rxq->state;
	const struct shm_map *m = shm_map_of(&s->rx);

	*flows = m ? m->flows : 0;
	*which = m ? m->serial : 0;
	return m ? shm_area(m) : NULL;
}

/* What the peer says, within what can be. */
static inline uint16_t waiting(struct shm_state *s, struct shm_queue *q, uint16_t n)
{
	uint64_t there = atomic_load_explicit(&q->ring->head, memory_order_acquire) - shm_at(q);

	if (unlikely(there > shm_map_of(q)->slots)) {
		s->corrupt++;
		atomic_store_explicit(&q->ring->tail, advance(q, there), memory_order_release);
		return 0;
	}
	return (uint16_t)RTE_MIN(there, n);
}

static inline bool take_out(struct shm_state *s, struct rte_mbuf *m, const struct shm_slot *slot,
			    uint32_t most, uint64_t now)
{
	/* Read once: the peer could change it between check and use. */
	uint32_t bytes = *(const volatile uint32_t *)&slot->bytes;

	if (unlikely(!bytes || bytes > most || bytes > rte_pktmbuf_tailroom(m))) {
		s->corrupt++;
		return false;
	}
	rte_memcpy(rte_pktmbuf_mtod(m, void *), slot->data, bytes);
	m->data_len = (uint16_t)bytes;
	m->pkt_len = bytes;
	pkt_set_marks(m, slot->marks & 3);
	*stamp_of(m) = now;
	if (s->times.wait_ns)
		note_wait(s, slot->tsc, now);
	return true;
}

static uint16_t read_ring(struct shm_state *s, struct link_rxq *rxq, struct rte_mbuf **pkts,
			  uint16_t n)
{
	struct shm_queue *q = &s->rx;
	uint16_t there, got = 0;
	uint64_t now;

	there = waiting(s, q, n);
	now = rte_rdtsc(); /* after the look: what is there was put before */
	if (s->times.wait_ns && unlikely((double)(now - s->last_poll) * s->ns_per_cycle > GAP_US * 1e3))
		note_gap(s, now);
	s->last_poll = now;
	if (!there)
		return 0;
	if (unlikely(rte_pktmbuf_alloc_bulk(rxq->link->pool, pkts, there))) {
		s->no_mbuf++;
		return 0;
	}
	for (uint16_t i = 0; i < there; i++) {
		const struct shm_slot *slot = slot_at(q, shm_at(q) + i);

		if (likely(i + 1 < there))
			rte_prefetch0(slot_at(q, shm_at(q) + i + 1));
		if (likely(take_out(s, pkts[i], slot, shm_map_of(q)->stride - sizeof(*slot), now)))
			pkts[got++] = pkts[i];
		else
			rte_pktmbuf_free(pkts[i]);
	}
	atomic_store_explicit(&q->ring->tail, advance(q, there), memory_order_release);
	s->received += got;
	return got;
}

static inline uint16_t look(struct shm_state *s, struct link_rxq *rxq, struct rte_mbuf **pkts, uint16_t n)
{
	bool there = ready(&s->rx, ring_in(s), true), more = false;
	uint16_t got = 0;

	if (unlikely(atomic_load_explicit(&s->holds, memory_order_relaxed)))
		shm_hold_look(s);
	if (unlikely(s->offload != NULL))
		got = shm_offload_rx(s, pkts, n, &more);
	else if (there && shm_map_of(&s->rx)->flows)
		note_done(s);
	if (unlikely(!there) || more || got == n)
		return got;
	return (uint16_t)(got + read_ring(s, rxq, pkts + got, n - got));
}

static __rte_noinline uint16_t timed_look(struct shm_state *s, struct link_rxq *rxq, struct rte_mbuf **pkts,
					  uint16_t n)
{
	struct shm_look start = shm_look_start();
	uint16_t got = look(s, rxq, pkts, n);

	shm_look_end(s, &start, got);
	return got;
}

/* A client trusts its server. */
uint16_t shm_rx(struct link_rxq *rxq, struct rte_mbuf **pkts, uint16_t n)
{
	struct shm_state *s = rxq->state;
	const struct shm_conf *c = s->link->conf;

	if (c->role)
		return look(s, rxq, pkts, n);
	if (unlikely(!--s->looks.left))
		return timed_look(s, rxq, pkts, n);
	return unlikely(s->looks.passing) ? 0 : look(s, rxq, pkts, n);
}

static inline bool put_in(struct shm_state *s, struct shm_slot *slot, const struct rte_mbuf *m,
			  uint32_t most, uint64_t now)
{
	const void *from;

	if (unlikely(m->pkt_len > most)) {
		s->too_long++;
		ends_add(&s->too_long_ends, m, 1);
		return false;
	}
	from = rte_pktmbuf_read(m, 0, m->pkt_len, slot->data);
	if (likely(from != slot->data))
		rte_memcpy(slot->data, from, m->pkt_len);
	slot->bytes = m->pkt_len;
	slot->marks = pkt_marks(m);
	slot->tsc = now;
	return true;
}

void shm_stamp(struct rte_mbuf *m, uint64_t now)
{
	*stamp_of(m) = now;
}

void shm_note_stay(struct shm_state *s, struct rte_mbuf *m, uint64_t now)
{
	uint64_t came = *stamp_of(m), stay = came < now ? now - came : 0;

	if (!s->stay_ns || !came) /* it did not come by a link of this kind */
		return;
	*stamp_of(m) = 0;
	s->stays++;
	s->stay_cycles += stay;
	hist_record(s->stay_ns, RTE_MIN((uint64_t)((double)stay * s->ns_per_cycle),
					(1ull << HIST_MAX_BITS) - 1));
}

/* A wake-up that took long is followed by some whose CPU time is asked for: it may have been preempted. */
static void wake_done(struct shm_wakes *w, uint64_t start, uint64_t cpu_ns, double ns_per_cycle)
{
	uint64_t now = rte_rdtsc(), took;

	if (!w->measured) {
		if ((double)(now - start) * ns_per_cycle > WAKE_DEAR_NS)
			w->measured = WAKES_MEASURED;
		return;
	}
	w->measured--;
	took = thread_cpu_ns() - cpu_ns;
	if (took <= WAKE_DEAR_NS) {
		w->dear = 0;
		return;
	}
	if (++w->dear < WAKES_DEAR)
		return;
	w->dear--; /* the next such one is followed by a pause, too */
	w->measured = WAKES_MEASURED;
	w->not_before = now + (uint64_t)((double)took * WAKE_PAUSE / ns_per_cycle);
}

static void hold_back(struct shm_state *s, uint64_t now)
{
	uint64_t one = 1;

	s->wakes_held++;
	atomic_store(&s->held, true);
	if ((double)(now - s->nudged) * s->ns_per_cycle < SHM_NUDGE_MS * 1e6)
		return;
	s->nudged = now;
	(void)!write(s->wake, &one, sizeof(one));
}

static void pay(struct shm_state *s, uint64_t start)
{
	uint64_t now = rte_rdtsc(), most = (uint64_t)(WAKE_DEAR_NS / s->ns_per_cycle);

	s->woken.paid_until = RTE_MAX(s->woken.paid_until, start) + RTE_MIN(now - start, most) * WAKE_SHARE;
}

static __rte_noinline void wake_client(struct shm_state *s, const struct shm_queue *q)
{
	uint64_t start = rte_rdtsc(), ahead = (uint64_t)(WAKE_AT_ONCE_NS / s->ns_per_cycle) * WAKE_SHARE;
	uint64_t cpu_ns;

	if (start < s->woken.not_before) {
		s->wakes_paused++;
		return;
	}
	if (s->woken.paid_until > start + ahead) {
		hold_back(s, start);
		return;
	}
	if (!atomic_exchange(&q->ring->asleep, 0))
		return;
	cpu_ns = s->woken.measured ? thread_cpu_ns() : 0;
	/* It only fails when wake-ups are pending already, or nobody can be woken. */
	send(shm_map_of(q)->fd[SHM_FD_TO_CLIENT], "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	wake_done(&s->woken, start, cpu_ns, s->ns_per_cycle);
	pay(s, start);
}

static __rte_noinline void wake_server(const struct shm_queue *q)
{
	uint64_t one = 1;

	if (atomic_exchange(&q->ring->asleep, 0))
		(void)!write(shm_map_of(q)->fd[SHM_FD_TO_SERVER], &one, sizeof(one));
}

/* The peer reads `asleep` before it sleeps, and `head` after it said so: one of us sees the other. */
static inline void wake_reader(struct shm_state *s, const struct shm_queue *q)
{
	const struct shm_conf *c = s->link->conf;

	atomic_thread_fence(memory_order_seq_cst);
	if (likely(!atomic_load_explicit(&q->ring->asleep, memory_order_relaxed)))
		return;
	if (c->role)
		wake_server(q);
	else
		wake_client(s, q);
}

/*
 * At least for so many, if there is. What the peer had taken when it was looked at last is room: its line is
 * read when that is used up, and not for each burst. Nonsense from it is no room, and it alone has the harm.
 */
uint32_t shm_room(struct shm_state *s, uint32_t wanted)
{
	struct shm_queue *q = &s->tx;
	uint64_t slots = shm_map_of(q)->slots, used = shm_at(q) - q->taken;

	if (likely(used <= slots && slots - used >= wanted))
		return (uint32_t)(slots - used);
	used = shm_at(q) - atomic_load_explicit(&q->ring->tail, memory_order_acquire);
	if (used > slots)
		return 0;
	q->taken = shm_at(q) - used;
	return (uint32_t)(slots - used);
}

/*
 * The next packet's, which the reader had last, or has put out of all caches: each would be waited for
 * before `asleep` can be read (wake_reader).
 */
static inline void fetch_slot(const struct shm_queue *q)
{
	const struct shm_slot *slot = slot_at(q, shm_at(q));

	__builtin_prefetch(slot, 1);
	__builtin_prefetch((const uint8_t *)slot + RTE_CACHE_LINE_SIZE, 1);
}

static void write_ring(struct shm_state *s, struct rte_mbuf **pkts, uint16_t n, uint64_t now)
{
	struct shm_queue *q = &s->tx;
	uint32_t most = shm_map_of(q)->stride - (uint32_t)sizeof(struct shm_slot);
	uint16_t put = 0;

	__builtin_prefetch(&q->ring->head, 1);
	__builtin_prefetch(&q->ring->asleep);
	for (uint16_t i = 0; i < n; i++) {
		if (unlikely(!put_in(s, slot_at(q, shm_at(q) + put), pkts[i], most, now)))
			continue;
		put++;
		if (s->stay_ns)
			shm_note_stay(s, pkts[i], now);
	}
	atomic_store_explicit(&q->ring->head, advance(q, put), memory_order_release);
	s->sent += put;
	wake_reader(s, q);
	fetch_slot(q);
	rte_pktmbuf_free_bulk(pkts, n);
}

void shm_put(struct shm_state *s, struct rte_mbuf *m, uint64_t now)
{
	write_ring(s, &m, 1, now);
}

/* In this order: who is up has been offered memory, which is taken up before it is used. */
bool shm_writes(struct shm_state *s)
{
	return likely(atomic_load_explicit(&s->up, memory_order_acquire)) &&
	       likely(ready(&s->tx, SHM_RINGS - 1 - ring_in(s), false));
}

uint16_t shm_tx(struct link_txq *txq, uint16_t dest, struct rte_mbuf **pkts, uint16_t n)
{
	struct shm_state *s = txq->state;
	uint16_t left;

	(void)dest;
	if (unlikely(atomic_load_explicit(&s->holds, memory_order_relaxed))) {
		bool gone;
		uint16_t waits = shm_hold_tx(s, pkts, n, &gone);

		if (!gone)
			return waits;
	}
	if (!shm_writes(s))
		return 0;
	if (unlikely(s->offload != NULL))
		n = shm_offload_tx(s, pkts, n, &left);
	else
		left = n = (uint16_t)RTE_MIN(n, shm_room(s, n));
	if (left)
		write_ring(s, pkts, left, rte_rdtsc());
	return n;
}

int shm_wait_fd(struct link_rxq *rxq)
{
	struct shm_state *s = rxq->state;
	const struct shm_conf *c = s->link->conf;

	if (!ready(&s->rx, ring_in(s), true))
		return -1;
	return shm_map_of(&s->rx)->fd[c->role ? SHM_FD_TO_CLIENT : SHM_FD_TO_SERVER];
}

/* Whether the reader may sleep: nothing came while it said that it would. */
bool shm_wait_arm(struct link_rxq *rxq)
{
	struct shm_state *s = rxq->state;
	struct shm_queue *q = &s->rx;

	if (!ready(q, ring_in(s), true))
		return true;
	atomic_store(&q->ring->asleep, 1);
	atomic_thread_fence(memory_order_seq_cst);
	return atomic_load(&q->ring->head) == shm_at(q);
}

/* Who waits for room in it is told, too. Left as it is it ends the next wait at once. */
static void empty(struct shm_state *s, int fd)
{
	uint64_t wakes, start = rte_rdtsc(), cpu_ns;
	struct iovec iov = {&wakes, sizeof(wakes)};

	if (start < s->emptied.not_before)
		return;
	cpu_ns = s->emptied.measured ? thread_cpu_ns() : 0;
	(void)!preadv2(fd, &iov, 1, -1, RWF_NOWAIT);
	wake_done(&s->emptied, start, cpu_ns, s->ns_per_cycle);
}

void shm_wait_disarm(struct link_rxq *rxq)
{
	struct shm_state *s = rxq->state;
	const struct shm_conf *c = s->link->conf;
	int fd = shm_wait_fd(rxq);
	uint64_t wakes;

	if (fd < 0)
		return;
	atomic_store(&s->rx.ring->asleep, 0);
	if (!c->role)
		empty(s, fd);
	else /* bounded: what is left ends the next wait at once */
		for (int i = 0; i < WAKES && recv(fd, &wakes, 1, MSG_DONTWAIT) >= 0; i++)
			;
}
