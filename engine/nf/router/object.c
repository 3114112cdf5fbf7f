/* SPDX-License-Identifier: Apache-2.0 */
/* Next-hop objects: what routes name by a number, and groups of them. */
#include <stdlib.h>

#include "vnf.h"

static struct object **object_link(struct vnf *v, uint32_t id)
{
	struct object **link = &v->objects[bucket_of(v, id)];

	while (*link && (*link)->id != id)
		link = &(*link)->next;
	return link;
}

const struct object *vnf_object(const struct vnf *v, uint32_t id)
{
	const struct object *o = v->objects[bucket_of(v, id)];

	while (o && o->id != id)
		o = o->next;
	return o;
}

static void group_enter(struct vnf *v, struct object *o)
{
	o->next_group = v->groups;
	v->groups = o;
	v->n_groups++;
}

static void group_leave(struct vnf *v, struct object *o)
{
	struct object **link = &v->groups;

	while (*link != o)
		link = &(*link)->next_group;
	*link = o->next_group;
	v->n_groups--;
}

static struct object *object_new(struct vnf *v, uint32_t id)
{
	struct object *o = v->n_objects < v->router->objects ? calloc(1, sizeof(*o)) : NULL;

	if (!o)
		return NULL;
	o->id = id;
	*object_link(v, id) = o;
	v->n_objects++;
	return o;
}

void vnf_object_put(struct vnf *v, const struct object *said)
{
	struct object *o = *object_link(v, said->id), *next;

	if (said->n_group && !(o && o->n_group) && v->n_groups == GROUPS_MAX) {
		v->no_room++;
		return;
	}
	o = o ? o : object_new(v, said->id);
	if (!o) {
		v->no_room++;
		return;
	}
	if (o->n_group)
		group_leave(v, o);
	next = o->next;
	*o = *said;
	o->next = next;
	o->generation = v->generation;
	if (o->n_group)
		group_enter(v, o);
	users_changed_object(v, o->id);
}

static void object_end(struct vnf *v, struct object **link)
{
	struct object *o = *link;

	*link = o->next;
	if (o->n_group)
		group_leave(v, o);
	v->n_objects--;
	free(o);
}

void vnf_object_del(struct vnf *v, uint32_t id)
{
	struct object **link = object_link(v, id);

	if (!*link)
		return;
	object_end(v, link);
	users_changed_object(v, id);
}

void vnf_objects_sweep(struct vnf *v, unsigned int bucket)
{
	for (struct object **link = &v->objects[bucket]; *link;)
		if ((*link)->generation == v->generation)
			link = &(*link)->next;
		else
			object_end(v, link);
}

void vnf_objects_fini(struct vnf *v)
{
	for (unsigned int i = 0; i < BUCKETS; i++)
		while (v->objects[i])
			object_end(v, &v->objects[i]);
}
