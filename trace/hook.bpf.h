/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
#pragma once

/*
 * What every hook does: find the packet, and begin, continue or leave it.
 *
 * A packet whose data moves to another buffer on its way (GSO segments, IP fragments,
 * copies) is followed on from what this CPU handled just before: the kernel does these
 * synchronously, between two hooks. The contents must agree (same IP identification, or
 * a sequence number within the parent's), so that an interrupt in between adopts nothing.
 */

#include "follow.bpf.h"

const volatile bool idle; /* hooks do nothing: what being called and timed costs by itself */
const volatile __u32 sample_threshold;            /* of a 32-bit hash, unless all are */
const volatile __u32 tx_origin = STAGE_DEV_QUEUE; /* first stage of what sockets send */
const volatile __u64 outside_ops[4]; /* netdev_ops of tun and tap: frames from elsewhere */
const volatile __u8 only_proto;
const volatile __u16 only_port;
const volatile __u32 only_addr;

/*
 * Changed by user space every few milliseconds. The slab hands the same few addresses
 * out again and again: a constant hash would choose some of them always, others never.
 */
__u64 sample_salt;

struct cpu_context {
	__u64 head; /* of the packet seen last; 0: nothing to follow on from */
	__u32 slot;
	__u32 segments; /* GSO: segments that may still come; `parent` is then valid */
	__u64 gro_head; /* between napi_gro_receive's entry and exit */
	__u32 gro_slot;
	__u32 pad;
	struct slot parent;
	struct trail trail; /* of the parent, where paths are emitted */
};

/* By CPU; as many entries as there are CPUs, as user space sets them. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE); /* begins at a page: values keep to cache lines */
	__type(key, __u32);
	__type(value, struct cpu_context);
} contexts SEC(".maps");

static __always_inline struct cpu_context *context(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&contexts, &cpu);
}

/* A device whose frames come from outside this kernel: hardware, or a tun/tap's user. */
static __always_inline bool dev_is_outside(struct net_device *dev)
{
	__u64 ops;

	if (!dev_valid(dev))
		return false;
	if (dev->dev.parent)
		return true;
	ops = (__u64)dev->netdev_ops;
	return ops == outside_ops[0] || ops == outside_ops[1] || ops == outside_ops[2] ||
	       ops == outside_ops[3];
}

/* skb_iif is 0 until the packet is received: then it was made on this host. */
static __always_inline bool is_origin(struct sk_buff *skb, enum stage stage)
{
	if (stage == tx_origin)
		return !skb->skb_iif;
	if (stage == STAGE_GRO || stage == STAGE_RECEIVE)
		return dev_is_outside(skb->dev);
	return false;
}

static __always_inline bool sampled(__u64 head)
{
	if (sample_all)
		return true;
	return (__u32)((((head >> 6) ^ sample_salt) * 0xd6e8feb86659fd93ull) >> 32) <=
	       sample_threshold;
}

static __always_inline bool wanted(const struct ident *id)
{
	if (only_proto && id->proto != only_proto)
		return false;
	if (only_port && only_port != id->ports >> 16 && only_port != (id->ports & 0xffff))
		return false;
	return !only_addr || only_addr == id->saddr || only_addr == id->daddr;
}

static __always_inline void slot_init(struct slot *s, __u32 i, struct sk_buff *skb,
				      enum stage stage, const struct ident *id, __u64 now)
{
	struct net_device *dev = skb->dev;
	struct place at = {};

	if (dev_valid(dev))
		place_read(&at, dev);
	s->skb = part_of(skb);
	s->dev = at.dev;
	s->first_ns = s->last_ns = now;
	s->flags = 0;
	s->ifindex = s->first_ifindex = at.ifindex;
	s->netns = s->first_netns = at.netns;
	s->id = *id;
	s->quick = id->quick;
	s->first_stage = s->last_stage = stage;
	if (id->frag)
		s->flags |= SLOT_WAS_FRAG;
	if (audit && audit_read(skb, stage, id, &s->audit))
		s->flags |= SLOT_AUDIT;
	if (emit_paths)
		trail_begin(s, i, stage, now);
}

/* A reading for another packet's comparison is whole if it was not cut to that one's payload. */
static __always_inline bool ident_whole(const struct ident *id, const struct ident *compared)
{
	return id->version && (id->proto != IPPROTO_UDP_ || id->payload_valid == PAYLOAD_WORDS ||
			       !compared->payload_valid);
}

/* `s`, `i`: the slot that this head's former packet left, or NULL; `id`: what is read already. */
static __always_inline int begin(struct sk_buff *skb, __u64 head, __u32 stage, struct slot *s,
				 __u32 i, struct ident *id)
{
	__u64 now = bpf_ktime_get_ns();
	bool readable = s && ident_whole(id, &s->id);

	if (!readable && ident_read(skb, stage, id, 0)) {
		count(CNT_not_ip);
		goto none;
	}
	if (!wanted(id))
		goto none;
	if (!s)
		s = slot_claim(head, now, &i);
	if (!s)
		return 0;
	slot_init(s, i, skb, stage, id, now);
	slot_publish(s, head);
	count(CNT_sampled);
	if (id->frag)
		count(CNT_fragments);
	return 0;
none:
	if (s)
		slot_free(s, i);
	return 0;
}

enum adoption {
	ADOPT_NO,
	ADOPT_COPY,
	ADOPT_FRAGMENT,
	ADOPT_SEGMENT,
};

/* Is a packet with an unknown head made from `p`, which this CPU handled just before? */
static __always_inline enum adoption adoption(const struct ident *p, const struct ident *id,
					      bool segments)
{
	if (p->version != id->version || p->proto != id->proto)
		return ADOPT_NO;
	if (id->frag && !p->frag && p->ip_id == id->ip_id && p->saddr == id->saddr &&
	    p->daddr == id->daddr)
		return ADOPT_FRAGMENT;
	if (segments && p->ports == id->ports && p->saddr == id->saddr && p->daddr == id->daddr &&
	    (p->proto != IPPROTO_TCP_ || id->seq - p->seq < p->l4_bytes))
		return ADOPT_SEGMENT;
	return !segments && ident_same(p, id) ? ADOPT_COPY : ADOPT_NO;
}

static __always_inline void count_adoption(enum adoption a, struct slot *s, struct cpu_context *c)
{
	if (a == ADOPT_COPY) {
		s->flags |= SLOT_COPY;
		count(CNT_head_replaced);
	} else if (a == ADOPT_FRAGMENT) {
		s->flags |= SLOT_FRAGMENT | SLOT_WAS_FRAG;
		count(CNT_fragmented);
	} else {
		s->flags |= SLOT_SEGMENT;
		c->segments--;
		count(CNT_gso_segments);
	}
}

/* What is made from a packet has come its way. */
static __always_inline void trail_inherit(struct cpu_context *c, __u32 to)
{
	__u32 from = c->slot;
	struct trail *was = c->segments ? &c->trail : bpf_map_lookup_elem(&trails, &from);
	struct trail *is = bpf_map_lookup_elem(&trails, &to);

	if (was && is)
		__builtin_memcpy(is, was, sizeof(*is));
}

static __always_inline void adopt_made(struct sk_buff *skb, __u64 head, __u32 stage)
{
	struct cpu_context *c = context();
	__u64 now = bpf_ktime_get_ns();
	struct slot *s, *parent;
	enum adoption a;
	struct ident id;
	__u32 i;

	if (!c || ident_read(skb, stage, &id, 0))
		return;
	i = c->slot;
	parent = c->segments ? &c->parent : bpf_map_lookup_elem(&slots, &i);
	if (!parent || (!c->segments && slot_head(parent) != c->head))
		return; /* its way has ended */
	a = adoption(&parent->id, &id, c->segments != 0);
	if (a == ADOPT_NO)
		return;
	s = slot_claim(head, now, &i);
	if (!s || s == parent)
		return;
	slot_copy(s, parent);
	s->skb = part_of(skb);
	s->id = id;
	s->quick = id.quick;
	s->flags &= ~(SLOT_SHARED | SLOT_AUDIT);
	if (audit && audit_read(skb, stage, &id, &s->audit))
		s->flags |= SLOT_AUDIT;
	if (emit_paths)
		trail_inherit(c, i);
	slot_stage(s, i, stage, skb->dev, now);
	if (a == ADOPT_COPY) { /* it moved: the old head is somebody else's from now on */
		if (slot_head(parent) == c->head)
			slot_free(parent, c->slot);
		c->head = 0;
	}
	count_adoption(a, s, c);
	slot_publish(s, head);
}

/*
 * Rare, hence not inlined. The verifier wants a defined return value, and the compiler
 * drops one that it knows to be constant.
 */
static __noinline int adopt(struct sk_buff *skb, __u64 head, __u32 stage)
{
	int zero = 0;

	adopt_made(skb, head, stage);
	asm volatile("" : "+r"(zero));
	return zero;
}

/* False: this is not the packet that the slot follows. What was read of it is in `id`. */
static __always_inline bool still_same(struct slot *s, struct sk_buff *skb, enum stage stage,
				       struct ident *id)
{
	if (bare_head)
		return true;
	if (stage == tx_origin && (s->flags & SLOT_SHARED)) /* sent again: a new generation */
		goto other;
	if (likely(ident_same_quick(&s->id, s->quick, skb, stage)))
		return true;
	if (!ident_read(skb, stage, id, s->id.payload_valid) && ident_same(&s->id, id))
		return true;
other:
	count_unseen(s, CNT_reuse_detected);
	return false;
}

static __always_inline void audit_check(struct slot *s, struct sk_buff *skb, enum stage stage)
{
	__u64 word;

	if (!(s->flags & SLOT_AUDIT) || !audit_read(skb, stage, &s->id, &word))
		return;
	count(CNT_audited);
	if (word != s->audit)
		count(CNT_audit_false);
}

enum stage_of {
	SAME,   /* the followed packet's */
	CLONES, /* a clone's of it */
	OTHERS, /* the head's new owner's: the slot is the caller's to free or to use */
};

static __always_inline enum stage_of whose(struct slot *s, struct sk_buff *skb, enum stage stage,
					   struct ident *id)
{
	if (!still_same(s, skb, stage, id))
		return OTHERS;
	if (unlikely(s->skb != part_of(skb)) && !bare_head) {
		if (!(s->flags & SLOT_SHARED)) {
			count(CNT_clones_skipped);
			return CLONES;
		}
		s->flags &= ~SLOT_SHARED; /* the original is gone, its clone goes on */
		s->skb = part_of(skb);
	}
	if (audit)
		audit_check(s, skb, stage);
	return SAME;
}

/*
 * A stage of a followed packet. Returns its slot, or NULL when it is not to be
 * recorded: a clone's event, or the head's new owner.
 */
static __always_inline struct slot *next(struct sk_buff *skb, struct slot *s, __u32 i,
					 enum stage stage)
{
	struct ident id = {};
	enum stage_of it;

	it = whose(s, skb, stage, &id);
	if (it == OTHERS)
		slot_free(s, i);
	return it == SAME ? s : NULL;
}

/* What may be made of it comes next on this CPU. */
static __always_inline void remember(__u64 head, __u32 i, __u32 stage)
{
	struct cpu_context *c = context();

	if (!c)
		return;
	if (stage == STAGE_GRO) {
		c->gro_head = head;
		c->gro_slot = i;
		return;
	}
	c->head = head;
	c->slot = i;
	c->segments = 0;
}

static __always_inline enum stage_of go_on(struct sk_buff *skb, __u64 head, struct slot *s, __u32 i,
					   __u32 stage, bool on_device, struct ident *id)
{
	enum stage_of it = whose(s, skb, stage, id);

	if (unlikely(it != SAME))
		return it;
	slot_stage(s, i, stage, on_device ? skb->dev : NULL, bpf_ktime_get_ns());
	if (stage == STAGE_RECEIVE || stage == STAGE_IP_OUT || stage == STAGE_GRO)
		remember(head, i, stage);
	return SAME;
}

/*
 * A packet not followed may be made from one that is: from a received one that is now
 * sent on (met first at DEV_QUEUE), or a segment of the GSO packet just freed. When the
 * next packet comes in, what came before is done with.
 */
static __always_inline int unknown(struct sk_buff *skb, __u64 head, enum stage stage)
{
	struct cpu_context *c = context();

	if (!c || !c->head)
		return 0;
	if (stage == STAGE_RECEIVE || stage == STAGE_IP_OUT) {
		c->head = 0;
		return 0;
	}
	return c->segments || stage == STAGE_DEV_QUEUE ? adopt(skb, head, stage) : 0;
}

/* Body of every hook where a packet passes a device or a layer. */
static __always_inline int hook(struct sk_buff *skb, enum stage stage, bool on_device)
{
	__u64 head = address(skb->head);
	struct ident id = {};
	struct slot *s;
	__u32 i = 0;
	bool origin;

	if (idle)
		return 0;
	origin = is_origin(skb, stage);
	s = slot_find(head, &i);
	if (origin)
		count(CNT_first_stage);
	if (s) {
		if (likely(go_on(skb, head, s, i, stage, on_device, &id) != OTHERS))
			return 0;
		if (!origin || !sampled(head)) {
			slot_free(s, i);
			s = NULL;
		}
	}
	if (!origin)
		return on_device ? unknown(skb, head, stage) : 0;
	return sampled(head) ? begin(skb, head, stage, s, i, &id) : 0;
}
