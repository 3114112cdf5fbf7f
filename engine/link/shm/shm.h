/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/dpdk.h"
#include "core/ends.h"
#include "core/hist.h"
#include "core/link.h"

/*
 * A pair of rings in memory that two engines share, for VNFs in processes and containers. What the
 * files of this link share; nobody else includes it.
 *
 * Packets are copied into and out of slots, so that no mbuf ever belongs to two processes: a peer
 * that dies, at whatever instruction, leaves nothing to be collected. A slot's content is published
 * by `head` after it is whole. The server owns the memory (a sealed memfd, which a client can
 * neither shrink nor grow) and trusts nothing that a client can write in it: neither indices nor
 * lengths. The connection over which a client gets the memory tells both sides of each other's
 * death, since the kernel closes it whatever happens.
 *
 * A client that sleeps is woken by datagrams, the server by an eventfd. Descriptors that are passed
 * share their flags with their copies, so that a client could make an eventfd block its writer; of
 * the datagrams each side has an end of its own, and a flag of one call, MSG_DONTWAIT, is nobody's to
 * clear. The server's end takes none (SHUT_RD), as a client could send descriptors with one, which
 * whoever takes the datagram has to close; that may wait for as long as the client likes
 * (core/discard.h). An eventfd carries no descriptors, and a read with RWF_NOWAIT never waits.
 * A client could give the memory's pages back to the kernel (MADV_REMOVE), so that each use of one is a
 * fault in the server. Once it has mapped the memory and said so, the server seals it against that
 * (F_SEAL_FUTURE_WRITE), and then looks whether all pages are there. Each client gets memory and
 * wake-ups of its own. It keeps the memory for as long as it likes, in descriptors that nobody counts: so
 * the pages are the client's to make, by which they are charged to it, and not to the server.
 *
 * A wake-up is the server's work at the client's order, so it is paid from a budget; what is beyond it
 * is left to the connection's thread, which is no lcore's. So is the time that looks for packets wait for
 * lines which a client keeps to itself; beyond it the link is passed by for some turns.
 */

#define SHM_MAGIC 0x68727368u /* "hrsh" */
#define SHM_VERSION 6
#define SHM_SLOT_ALIGN 64

enum { SHM_TO_CLIENT, SHM_TO_SERVER, SHM_RINGS };

struct shm_ring {
	_Alignas(64) _Atomic uint64_t head;   /* producer's */
	_Alignas(64) _Atomic uint64_t tail;   /* consumer's */
	_Alignas(64) _Atomic uint32_t asleep; /* consumer's: wants to be woken */
};

struct shm_slot {
	uint64_t tsc; /* when it was put here; the TSC is one for all processes of a machine */
	uint32_t bytes;
	uint32_t marks; /* whose the packet is (ends.h) */
	uint8_t data[];
};

/* What a client is told, with the descriptors. */
struct shm_hello {
	uint32_t magic, version;
	uint32_t slots, stride;
	uint32_t flows; /* of which the client may tell what it decided */
	uint32_t kept_mb; /* of memory that the server keeps for the next client; 0: no descriptor of it */
};

struct shm_region {
	struct shm_ring rings[SHM_RINGS];
	/* then slots * stride bytes of each ring, and with flows an offload_area */
};

/* The memory, the eventfd that wakes the server, one's own end of the datagrams that wake the client. */
enum { SHM_FD_MEMORY, SHM_FD_TO_SERVER, SHM_FD_TO_CLIENT, SHM_FDS };
/* Behind them, with kept_mb: what checkpoints are written into. */
#define SHM_FDS_MOST (SHM_FDS + 1)
#define SHM_KEPT_MB_MAX 4096

/*
 * Memory that the server keeps from client to client, sealed at its size: so it is the quota, too. The server
 * neither maps nor reads it; its pages are the clients' to make. A client has it until it ends.
 */
struct shm_kept {
	void *memory;
	size_t bytes;
	uint64_t device, inode; /* by which it is known again */
	struct shm_kept *before; /* another server's */
};

/* One mapping of a region: each queue has its own, which its lcore alone uses. */
struct shm_map {
	struct shm_region *region;
	size_t size;
	uint32_t slots, stride, flows;
	uint64_t serial; /* of the peer that it is shared with */
	int fd[SHM_FDS];
	int client_end; /* server's, until it is given */
};

/*
 * A queue takes up a new mapping by itself (a client, when its server has been started anew), and
 * hands the old one back: so neither waits for the other.
 */
struct shm_queue {
	_Atomic(struct shm_map *) map; /* lcore's; both are looked at by who counts */
	struct shm_ring *ring;
	uint8_t *slots;
	_Atomic uint64_t at; /* own index: what is in the shared memory is for the peer to read */
	uint64_t taken;	     /* writer's: the reader's index, as it was seen last */
	_Atomic(struct shm_map *) next, retired;
};

/* The lcore alone writes these two. */
static inline struct shm_map *shm_map_of(const struct shm_queue *q)
{
	return atomic_load_explicit(&q->map, memory_order_relaxed);
}

static inline uint64_t shm_at(const struct shm_queue *q)
{
	return atomic_load_explicit(&q->at, memory_order_relaxed);
}

struct shm_times {
	uint64_t count, wait, off_cpu, stay; /* cycles, summed over packets */
	struct hist *wait_ns, *off_cpu_ns;
};

struct shm_conf {
	char *socket;
	uint32_t role;
	uint64_t slots, slot_bytes, wait_link_ms, offload, checkpoint_ms, checkpoint_mb;
	bool times;
};

/* An lcore tells the thread that it leaves wake-ups to it; while it does, so often. */
#define SHM_NUDGE_MS 10

/* What wake-ups by this link cost the lcore, and until when it makes none. */
struct shm_wakes {
	uint64_t not_before; /* TSC */
	uint64_t paid_until; /* TSC: the budget's, of as much time as it takes to have this much */
	unsigned int measured; /* so many of the next ones are, by the thread's CPU time */
	unsigned int dear; /* of those that were, in a row */
};

/* What looks at this link's lines wait for, and for how many turns it is not looked at (looks.c). */
struct shm_looks {
	uint32_t turns, left; /* until one is timed; left of them */
	bool passing;	      /* in these it is not looked at */
	uint32_t random;
	uint64_t last;	     /* TSC, when one was timed */
	uint64_t paid_until; /* TSC: the budget's */
	uint64_t passed;     /* turns */
};

/* Packets that wait for a client's successor. */
#define SHM_WAITING 4096
struct shm_hold {
	bool lets_go;	    /* it is there */
	unsigned int lcore; /* that writes */
	_Atomic uint32_t n; /* of `waiting`, which goes round */
	uint32_t first, most;
	uint64_t waited;
	struct rte_mbuf *waiting[SHM_WAITING];
};

struct shm_look {
	uint64_t clock, start; /* TSC, twice: what reading it takes lies between */
};

struct shm_state {
	struct link *link;
	struct shm_queue rx, tx;
	struct shm_map *own; /* server's: what it gives out */
	struct shm_map
		*control; /* client's, the control thread's: where changes of tables are told */
	int kept_fd; /* server's; -1: it keeps nothing */
	_Atomic(struct shm_kept *) kept; /* client's: the last one; those before stay mapped */
	uint64_t serial;  /* peers so far */
	struct shm_offload *offload; /* server's: NULL without flows */
	_Atomic bool up;
	_Atomic bool holds; /* server's: packets for the client wait in `hold` */
	struct shm_hold *hold;
	_Atomic bool stop;
	_Atomic uint64_t connects, refused;
	_Atomic uint64_t robbed; /* clients that kept the memory from being sealed whole */
	control_thread thread;
	bool running;
	int listening, peer, wake; /* wake: ends the thread's wait */
	_Atomic bool held; /* a client asked to be woken, and its lcore did not */
	unsigned int held_turns;
	uint64_t let_in_ns;
	bool given; /* the memory, to a client */
	/* Reader's lcore. */
	uint64_t last_poll, cpu_tsc, cpu_ns, gap_start, gap_end;
	double gap_share; /* of the last gap, what its lcore was off the CPU */
	struct shm_looks looks;
	struct shm_wakes emptied;
	uint64_t received, corrupt, no_mbuf;
	struct shm_times times;
	/* Writer's lcore. */
	struct shm_wakes woken;
	uint64_t nudged; /* TSC */
	uint64_t sent, too_long, wakes_held, wakes_paused;
	struct ends too_long_ends;
	uint64_t stays, stay_cycles;
	struct hist *stay_ns;
	double ns_per_cycle;
};

/* Memory (memory.c). */
int shm_renew(struct shm_state *s, struct err *err);
struct shm_map *shm_map_open(const struct shm_hello *hello, const int *fds);
struct shm_map *shm_map_again(const struct shm_map *m);
bool shm_take_in(struct shm_state *s); /* false: not all of it is there for good */
void shm_map_close(struct shm_map *m);
void shm_queue_offer(struct shm_queue *q, struct shm_map *m);
void shm_queue_close(struct shm_queue *q);
uint64_t shm_queue_used(const struct shm_queue *q, unsigned int ring);
uint64_t shm_queue_unread(const struct shm_queue *q, unsigned int ring);

struct offload_area *shm_area(const struct shm_map *m); /* NULL without flows */
void shm_queue_control(struct shm_state *s, struct shm_map *m);
void shm_tables_changed(struct link *l);

/* Memory for checkpoints (kept.c). */
int shm_kept_make(struct shm_state *s, struct err *err);
void shm_kept_take(struct shm_state *s, uint32_t mb, int fd); /* client's: of a hello */
void shm_kept_close(struct shm_state *s);
uint32_t shm_checkpoint_ms(const struct link *l);
void *shm_kept_at(const struct link *l, size_t *bytes);

/* The connection (peer.c): a thread of its own, which sleeps unless peers come and go. */
int shm_peer_start(struct shm_state *s, struct err *err);
void shm_peer_stop(struct shm_state *s);

/* Looks that wait (looks.c). */
void shm_looks_begin(struct shm_looks *l);
struct shm_look shm_look_start(void);
void shm_look_end(struct shm_state *s, const struct shm_look *look, bool found);

/* Packets (packets.c). */
extern int shm_stamp_offset;
uint32_t shm_room(struct shm_state *s, uint32_t wanted);
/* There is somebody to write to. */
bool shm_writes(struct shm_state *s);
/* One packet into the ring, which has room; it belongs to the ring from then on. */
void shm_put(struct shm_state *s, struct rte_mbuf *m, uint64_t now);
void shm_note_stay(struct shm_state *s, struct rte_mbuf *m, uint64_t now);
void shm_stamp(struct rte_mbuf *m, uint64_t now);
uint16_t shm_rx(struct link_rxq *q, struct rte_mbuf **pkts, uint16_t n);
uint16_t shm_tx(struct link_txq *q, uint16_t dest, struct rte_mbuf **pkts, uint16_t n);
int shm_wait_fd(struct link_rxq *q);
struct offload_area *shm_told(struct link_rxq *q, uint32_t *flows, uint64_t *which);
bool shm_wait_arm(struct link_rxq *q);
void shm_wait_disarm(struct link_rxq *q);

/* A client is replaced (hold.c). */
int shm_hold(struct link *l, struct err *err);
int shm_release(struct link *l, struct err *err);
bool shm_holds(const struct link *l, struct link_held *held);
int shm_drained(const struct link *l);
/* Writer's lcore: how many wait now; `gone`: none any more, these can be written. */
uint16_t shm_hold_tx(struct shm_state *s, struct rte_mbuf **pkts, uint16_t n, bool *gone);
/* Reader's, which may be the writer's. */
void shm_hold_look(struct shm_state *s);
uint64_t shm_hold_used(const struct shm_state *s);
void shm_hold_close(struct shm_state *s);

/*
 * Offload of state, the server's part (offload.c): what a client decided is done to its flows'
 * packets here. One lcore writes and reads the link: otherwise nothing is offloaded.
 */
int shm_offload_open(struct shm_state *s, struct err *err);
void shm_offload_close(struct shm_offload *o);
/*
 * Of n packets for the client: those that need not go to it are taken. `*left` of the others are
 * for the ring, first in pkts; those for which there is no room are the last. How many are not
 * among the latter.
 */
uint16_t shm_offload_tx(struct shm_state *s, struct rte_mbuf **pkts, uint16_t n, uint16_t *left);
/* Packets as if they came back from the client; all that is here of them is given before what it
 * sent. */
uint16_t shm_offload_rx(struct shm_state *s, struct rte_mbuf **pkts, uint16_t n, bool *more);
uint64_t shm_offload_used(const struct shm_offload *o);
json_t *shm_offload_json(const struct shm_offload *o, json_t *ended);
