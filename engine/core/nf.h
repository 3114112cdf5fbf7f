/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rte_mbuf.h>

#include "err.h"
#include "param.h"

/*
 * The contract of a network function.
 *
 * An NF is a table of functions. It never learns which execution model, link or
 * host it runs in. `process` looks at a burst and writes one verdict per packet;
 * the engine alone frees, splits, queues, counts and times. Conservation holds at
 * every NF and is checked by the tests:
 *	in + created = out + dropped + aborted + consumed + change in held
 */

#define BURST_MAX 64 /* packets; a segment's `burst` parameter is at most this */
#define NF_EDGES_MAX 64 /* a NIC's 63 VFs and its uplink (Wang et al. 2016) */
#define NF_DROPS_MAX 32
#define NF_COUNTERS_MAX 32

/*
 * A verdict is an edge's number (0 is the main way on), or one of these.
 * The engine presets every verdict to edge 0: an NF writes only exceptions.
 */
#define NF_DROP(reason) (0x40 + (reason)) /* reason: index into nf_ops.drops */
#define NF_CONSUME 0xFD /* the packet's way ends here, on purpose (leaf NFs) */
#define NF_HOLD 0xFE    /* the NF keeps the mbuf and will nf_release or nf_drop_held it */
#define NF_ABORT 0xFF   /* malformed: counted apart from policy drops */

enum nf_direction {
	NF_FORWARD,
	NF_REVERSE,
	NF_DIRECTIONS,
};

struct burst {
	uint16_t n;
	uint8_t direction; /* enum nf_direction, the same for all packets */
	bool trails;       /* packets have trails (pkt.h), which nf_ops.trails functions follow and leave */
	uint64_t now;      /* TSC at the time the burst was polled (sampled, not per packet) */
	uint8_t verdict[BURST_MAX];
	struct rte_mbuf *pkts[BURST_MAX];
};

/* Header parts an NF reads or writes; NFP's action table. Used by planning, not at run time. */
enum nf_field {
	NF_F_MAC = 1 << 0,
	NF_F_VLAN = 1 << 1,
	NF_F_SRC_IP = 1 << 2,
	NF_F_DST_IP = 1 << 3,
	NF_F_SRC_PORT = 1 << 4,
	NF_F_DST_PORT = 1 << 5,
	NF_F_PROTO = 1 << 6,
	NF_F_TTL = 1 << 7,
	NF_F_DSCP = 1 << 8,
	NF_F_L4_FLAGS = 1 << 9,
	NF_F_PAYLOAD = 1 << 10,
	NF_F_LENGTH = 1 << 11,
};
#define NF_FIELDS 12
extern const char *const nf_field_names[]; /* by bit */
#define NF_F_5TUPLE                                                                                \
	(NF_F_SRC_IP | NF_F_DST_IP | NF_F_SRC_PORT | NF_F_DST_PORT | NF_F_PROTO)

/* NfvInsight's categories (section 3). */
enum nf_category {
	NF_LEAF,
	NF_NETWORK_ORIENTED,
	NF_HOST_ORIENTED,
	NF_GENERAL,
};

/*
 * What the key of an NF's state is; decides how its flows may be steered: in an elastic segment by bucket,
 * which is of the tuple's hash, or, with an NF that keeps by address, of that address'.
 */
enum nf_state_key {
	NF_STATELESS,
	NF_STATE_FLOW,      /* per 5-tuple, both directions to one worker */
	NF_STATE_SRC,       /* per source address; of what comes in reverse, destination address */
	NF_STATE_DST,       /* the other way round */
	NF_STATE_GLOBAL,    /* of all packets */
};

struct nf;

struct flow_epochs;

/*
 * For the consolidated fast path (docs/design/fastpath.md): a flow with ports as it came to the NF,
 * in network byte order, and what the NF says of its next packets.
 */
struct nf_flow {
	union {
		struct {
			uint32_t src, dst;
		};
		struct {
			uint8_t src6[16], dst6[16];
		};
	};
	uint16_t sport, dport;
	uint8_t proto;     /* TCP or UDP */
	uint8_t direction; /* enum nf_direction */
	bool v6;
};

/* Written whatever was there before; addresses, ports and TTL are seen from the packet. */
enum nf_flow_sets {
	NF_SETS_DST_MAC = 1 << 0,
	NF_SETS_SRC_MAC = 1 << 1,
};

struct nf_flow_action {
	uint8_t sets;           /* enum nf_flow_sets */
	uint32_t counters;      /* bits: those of the NF's that each packet adds one to */
	/* The NF's record of the flow, if it has one: its epoch grows when that changes or goes. */
	const struct flow_epochs *epochs; /* NULL: the answer depends on the tuple and on tables only */
	uint32_t flow;          /* flow_index */
	uint32_t *expires;      /* set to now + timeout while packets come; may be NULL */
	uint32_t timeout;       /* in flow_now() units (table/flow.h) */
	bool account;           /* flow_account is to be told of each packet; with `epochs` */
};

/*
 * For checkpoints (docs/design/checkpoints.md): which of its flow tables an NF has kept for the instance
 * that comes after it, and what of a flow. Of NFs with one worker.
 */
struct nf_worker;
struct flow_table;
struct flow;
#define NF_KEPT_BYTES 32 /* of an NF's own, for a flow */

/* A flow as it was kept. All of it is to be checked: who wrote it need not have been an NF. */
struct nf_kept {
	const void *key; /* as the table's family has it */
	const void *own; /* what `save` wrote */
	uint32_t expires, now; /* flow_now(); it has not expired */
	uint16_t user;
};

struct nf_keeps {
	uint32_t bytes;   /* of `own`, at most NF_KEPT_BYTES */
	uint32_t records; /* that a flow has in its table: 2 of nat's, one for each way */
	/* Its i-th table, of the family `*v6`; NULL: there are no more. */
	struct flow_table *(*table)(struct nf_worker *w, unsigned int i, bool *v6);
	/* Worker lcore. False: this record is kept with another one of its flow's. */
	bool (*save)(struct nf_worker *w, unsigned int table, struct flow *f, void *own, uint32_t *expires);
	/* Before the first packet: the flow goes on. NULL: not as it is. */
	struct flow *(*restore)(struct nf_worker *w, unsigned int table, const struct nf_kept *kept);
};

/* One per (NF instance, segment replica). Owned by the engine, used by one lcore. */
struct nf_worker {
	struct nf *nf;
	void *state;         /* the NF's own, set by worker_init */
	unsigned int index;  /* 0..count-1 among the workers of this instance */
	unsigned int count;
	int socket_id;
	uint64_t counters[NF_COUNTERS_MAX]; /* by nf_ops.counters; single writer */
	struct replica *replica;            /* engine's */
	unsigned int node;                  /* engine's */
	/*
	 * In an elastic segment (docs/design/elastic.md): which worker has a bucket now, by pkt_bucket;
	 * it alone gets the bucket's packets, and reads and writes what is kept of them. NULL: no buckets,
	 * what a worker keeps is its own.
	 */
	const _Atomic uint8_t *owners;
	struct nf_worker *first; /* with owners: worker 0, made before the others and ended after them */
};

/* One per instance. */
struct nf {
	const struct nf_ops *ops;
	char name[32];
	const void *conf; /* parsed by ops->params; lives as long as the instance */
	void *state;      /* shared by the workers: read-mostly tables */
	unsigned int workers; /* how many workers will be made */
	const _Atomic uint8_t *owners; /* as the workers' */
	int socket_id;
	/*
	 * It is made to see whether it can be, and what it would do with some packets: none will come on an
	 * lcore. Files are read and parameters refused as ever, but nothing outside is opened, started or
	 * written, and no table is larger than what the files hold.
	 */
	bool checking;
	bool partial; /* while checking: not all of its tables were made, so that packets tell nothing */
	_Atomic uint64_t changes; /* of its tables; the engine counts every update, done or refused */
};

struct nf_ops {
	const char *name;
	const char *doc;       /* one paragraph, plain text */
	const char *standards; /* what it implements and what it leaves out */
	const struct param *params;
	size_t conf_size;
	const char *const *edges;    /* NULL-terminated; NULL means {"out"} */
	const char *const *drops;    /* NULL-terminated names of reasons; may be NULL */
	uint32_t policy_drops;       /* bits of `drops`: what the user asked to be dropped */
	const char *const *counters; /* NULL-terminated; may be NULL */
	uint32_t reads, writes;      /* enum nf_field bits */
	bool may_drop;
	bool changes_volume; /* may change the amount of traffic other than by dropping */
	enum nf_category category;
	enum nf_state_key state_key;
	bool wants_headers; /* packets must be classified (pkt.h) before process */
	bool wants_port;    /* a bridge: inputs must say which of its ports they are (nf_port) */
	bool marks_mbuf;    /* process writes the mbuf's own fields, were it only for a while */
	/*
	 * It may be in an elastic segment: what it keeps of packets is kept by nf_worker.owners' buckets, or
	 * it keeps nothing, or (NF_STATE_GLOBAL) its workers share what they keep.
	 */
	bool elastic;
	/*
	 * It looks packets up in a flow table by their trails, if the burst has them, and leaves its own
	 * (nf/lib/trail.h). The packets that one emits or releases have none.
	 */
	bool trails;
	const struct nf_keeps *keeps; /* NULL: nothing of its state is kept */
	/*
	 * With this configuration it must not work on a packet that another NF works on at the same time
	 * (docs/design/parallel.md): why, in a few words; NULL: it may, as far as the above says so. For
	 * what holds packets, and what is not declared above. NULL: as if it said NULL.
	 */
	const char *(*apart)(const void *conf);

	/* Control thread. Load files, build tables. Errors name "params.X" or "file:line". */
	int (*init)(struct nf *nf, struct err *err);
	void (*fini)(struct nf *nf);
	int (*worker_init)(struct nf_worker *w, struct err *err);
	void (*worker_fini)(struct nf_worker *w);

	/* Worker lcore; never blocks, allocates or logs. */
	void (*process)(struct nf_worker *w, struct burst *b);
	/* Worker lcore, about every millisecond; may be NULL. */
	void (*tick)(struct nf_worker *w, uint64_t now_tsc);
	/*
	 * Control thread, in an elastic segment: no lcore runs this worker from now on, or one does again.
	 * What it says of itself at ticks is no longer said: its numbers of flows are 0. May be NULL.
	 */
	void (*rest)(struct nf_worker *w, bool rests);
	/*
	 * In an elastic segment, any writer's lcore: which bucket a packet is of that comes in this
	 * direction, where that is not by its tuple: true. May be NULL.
	 */
	bool (*bucket_of)(const struct nf *nf, const struct rte_mbuf *m, enum nf_direction dir,
			  uint8_t *bucket);
	/*
	 * With this configuration, in an elastic segment with inputs in reverse in which functions change
	 * endpoints: packets whose answers no bucket_of tells the bucket of, in a few words; NULL: there are
	 * none. NULL: as if it said NULL.
	 */
	const char *(*untold)(const void *conf);
	/*
	 * Worker lcore, at every poll of the segment, idle ones too, while the NF holds packets:
	 * what a shaper's time has come for. May be NULL.
	 */
	void (*poll)(struct nf_worker *w);

	/*
	 * Worker lcore, after process: will the NF do to every packet of this flow what it did to
	 * the last one, until a table changes (nf.changes) or its record of the flow does? `flow`
	 * is as that packet came to it, `verdict` an edge or a drop. The engine asks about, and
	 * spares the NF, only TCP with ACK and without SYN, FIN and RST, and UDP, of whole untagged
	 * unicast packets: IPv4 without options and with a right header checksum, IPv6 without
	 * extension headers; with TTL left. Which of these they are, their lengths, TTL, DSCP and
	 * flags must not matter to the answer. NULL: never.
	 */
	bool (*flow_action)(struct nf_worker *w, const struct nf_flow *flow, uint8_t verdict,
			    struct nf_flow_action *action);
	/*
	 * Worker lcore: packets that the NF was spared, of flows for which it wanted to `account`: what
	 * process would have kept of each. flows[i] is pkts[i]'s record, by flow_index. Lengths, flags and
	 * DSCP are as they came to the NF; addresses, ports, TTL and MACs may be as they leave its run.
	 */
	void (*flow_account)(struct nf_worker *w, const uint32_t *flows, struct rte_mbuf *const *pkts,
			     unsigned int n, uint64_t now);

	/*
	 * Control thread, concurrent with process: change a table. `op` is the object sent
	 * over the control socket; *reply may be set to an object. Either wholly applied or not.
	 */
	int (*update)(struct nf *nf, const json_t *op, json_t **reply, struct err *err);
};

/* Which of the NF's ports a packet came in by: the `port` of its segment's input in the plan. */
static inline uint16_t nf_port(const struct rte_mbuf *m)
{
	return m->port;
}

/* Put into the registry at start-up; NF_REGISTER(nf_acl_ops) at file scope. */
void nf_register(const struct nf_ops *ops);
const struct nf_ops *nf_find(const char *name);
const struct nf_ops *nf_at(unsigned int i); /* NULL past the last; sorted by name */

/* Control thread: ops->update, counted in nf->changes. */
int nf_update(struct nf *nf, const json_t *op, json_t **reply, struct err *err);

#define NF_REGISTER(ops)                                                                           \
	__attribute__((constructor)) static void nf_register_##ops(void) { nf_register(&ops); }

/*
 * From process, tick or poll only. nf_emit sends a packet the NF made (counted as created)
 * out on `edge`; nf_release does so with one it held; nf_drop_held drops a held one.
 * nf_emit and nf_release return -ENOBUFS when this poll's emit queue is full: the packet
 * stays the caller's. Mbufs to make packets from: nf_alloc (NULL when the pool is empty).
 */
int nf_emit(struct nf_worker *w, struct rte_mbuf *m, uint8_t edge, enum nf_direction dir);
int nf_release(struct nf_worker *w, struct rte_mbuf *m, uint8_t edge, enum nf_direction dir);
void nf_drop_held(struct nf_worker *w, struct rte_mbuf *m, unsigned int reason);
struct rte_mbuf *nf_alloc(struct nf_worker *w);
