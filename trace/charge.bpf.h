/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
#pragma once

/*
 * Whose is a core's time? A process's is its network namespace's. A softirq's is that of the packet
 * that is worked on, whoever the softirq interrupts: a packet crosses to another namespace only
 * over a queue, and is then met by netif_receive_skb with a device of the new one. So the clock is
 * read only where the namespace changes.
 */
#include "kernel.h"

#include "cores.h"

#define KTHREAD 0x00200000 /* PF_KTHREAD */
/* The first five letters of "napi/DEVICE-NUMBER", as a little-endian number. */
#define NAPI_NAME 0x2f6970616eull
#define NAME_MASK 0xffffffffffull
#define PROBES 8

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set to the number of CPUs */
	__type(key, __u32);
	__type(value, struct core_charge);
} charges SEC(".maps");

static __always_inline struct core_charge *charge_here(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&charges, &cpu);
}

static __always_inline struct share *share_at(struct core_charge *c, __u32 i)
{
	return &c->share[i & (SHARES - 1)];
}

/* Number of a namespace's share; 0 where there is no room for it. */
static __always_inline __u32 share_of(struct core_charge *c, __u32 netns)
{
	if (!netns)
		return 0;
#pragma clang loop unroll(disable)
	for (__u32 n = 0; n < PROBES; n++) {
		__u32 i = (netns + n) & (SHARES - 1);
		struct share *s = share_at(c, i);

		if (!i || (s->netns && s->netns != netns))
			continue;
		s->netns = netns;
		return i;
	}
	return 0;
}

static __always_inline bool in_stack(const struct core_charge *c)
{
	return c->in_softirq || c->kind == TASK_NAPI;
}

/* What has passed since the last change goes to whom it belonged to. */
static __always_inline void charge(struct core_charge *c, __u64 now)
{
	__u64 ns = now - c->since_ns;

	if (!c->since_ns || c->kind == TASK_UNKNOWN)
		ns = 0;
	c->since_ns = now;
	if (in_stack(c))
		share_at(c, c->owner == NOBODY ? 0 : c->owner)->stack_ns += ns;
	else if (c->kind == TASK_PROCESS)
		share_at(c, c->task)->process_ns += ns;
}

static __always_inline void charge_begins(struct core_charge *c)
{
	c->version++;
	barrier();
}

static __always_inline void charge_ends(struct core_charge *c)
{
	barrier();
	c->version++;
}

static __always_inline void charge_task(struct core_charge *c, struct task_struct *next)
{
	__u64 name = *(__u64 *)next->comm & NAME_MASK;

	c->owner = NOBODY;
	c->dev = 0;
	if (!next->pid) {
		c->kind = TASK_IDLE;
	} else if ((next->flags & KTHREAD) && name == NAPI_NAME) {
		c->kind = TASK_NAPI;
	} else {
		c->kind = TASK_PROCESS;
		c->task = share_of(c, next->nsproxy->net_ns->ns.inum);
	}
}

static __always_inline void charge_switch(struct task_struct *next, __u64 now)
{
	struct core_charge *c = charge_here();

	if (!c)
		return;
	charge_begins(c);
	charge(c, now);
	charge_task(c, next);
	charge_ends(c);
}

static __always_inline void charge_softirq(bool enters, __u64 now)
{
	struct core_charge *c = charge_here();

	if (!c)
		return;
	charge_begins(c);
	charge(c, now);
	if (enters)
		c->thread_owner = c->owner;
	c->in_softirq = enters;
	c->owner = enters ? NOBODY : c->thread_owner;
	c->dev = 0;
	charge_ends(c);
}

/*
 * A packet of a device is worked on from here. What came before it in this softirq or poll, if it
 * was nobody's, was done to bring it here.
 */
static __always_inline int charge_packet(struct net_device *dev)
{
	struct core_charge *c = charge_here();
	__u32 owner;

	if (!c || !in_stack(c) || c->dev == (__u64)dev)
		return 0;
	charge_begins(c);
	owner = share_of(c, dev->nd_net.net->ns.inum);
	if (c->owner != owner && c->owner != NOBODY)
		charge(c, bpf_ktime_get_ns());
	c->owner = owner;
	c->dev = (__u64)dev;
	charge_ends(c);
	return 0;
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(on_receive, struct sk_buff *skb)
{
	return charge_packet(skb->dev);
}

SEC("tp_btf/napi_gro_receive_entry")
int BPF_PROG(on_gro, struct sk_buff *skb)
{
	return charge_packet(skb->dev);
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(on_xmit, struct sk_buff *skb, struct net_device *dev)
{
	return charge_packet(dev);
}

/* After a device's poll: it need not have handed up a packet (XDP). A backlog has no device. */
SEC("tp_btf/napi_poll")
int BPF_PROG(on_poll, struct napi_struct *napi)
{
	struct core_charge *c = charge_here();
	struct net_device *dev = napi->dev;

	if (!c || !in_stack(c))
		return 0;
	charge_begins(c);
	if (c->owner == NOBODY && dev)
		c->owner = share_of(c, dev->nd_net.net->ns.inum);
	charge(c, bpf_ktime_get_ns());
	c->owner = NOBODY;
	c->dev = 0;
	charge_ends(c);
	return 0;
}
