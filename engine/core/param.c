/* SPDX-License-Identifier: Apache-2.0 */
#include "param.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *json_type_name(const json_t *v)
{
	static const char *const names[] = {"object", "array", "string", "integer", "number",
					    "true",   "false", "null"};

	return v ? names[json_typeof(v)] : "nothing";
}

int param_ip_parse(const char *text, struct param_ip *ip)
{
	char buf[64];
	char *slash, *end;
	unsigned long len;

	if (strlen(text) >= sizeof(buf))
		return -EINVAL;
	strcpy(buf, text);
	slash = strchr(buf, '/');
	if (slash)
		*slash++ = '\0';
	memset(ip, 0, sizeof(*ip));
	if (inet_pton(AF_INET, buf, ip->addr) == 1)
		ip->family = 4;
	else if (inet_pton(AF_INET6, buf, ip->addr) == 1)
		ip->family = 6;
	else
		return -EINVAL;
	ip->len = ip->family == 4 ? 32 : 128;
	if (!slash)
		return 0;
	if (*slash < '0' || *slash > '9')
		return -EINVAL;
	len = strtoul(slash, &end, 10);
	if (*end || len > ip->len)
		return -EINVAL;
	ip->len = len;
	return 0;
}

int param_mac_parse(const char *text, struct param_mac *mac)
{
	unsigned int b[6];
	int used = 0;

	if (sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x%n", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5],
		   &used) != 6 ||
	    text[used])
		return -EINVAL;
	for (int i = 0; i < 6; i++)
		mac->bytes[i] = b[i];
	return 0;
}

static size_t type_size(const struct param *p)
{
	switch (p->type) {
	case PARAM_BOOL:
		return sizeof(bool);
	case PARAM_UINT:
		return sizeof(uint64_t);
	case PARAM_DOUBLE:
		return sizeof(double);
	case PARAM_STRING:
	case PARAM_FILE:
	case PARAM_OUTPUT:
		return sizeof(char *);
	case PARAM_ENUM:
		return sizeof(uint32_t);
	case PARAM_MAC:
		return sizeof(struct param_mac);
	case PARAM_IP:
		return sizeof(struct param_ip);
	case PARAM_OBJECT:
		return p->fields_size;
	}
	return 0;
}

static int wrong_type(const json_t *v, const char *path, const char *want, struct err *err)
{
	if (json_is_string(v))
		return err_set(err, EINVAL, path, "\"%.60s\" is a string; %s is wanted",
			       json_string_value(v), want);
	return err_set(err, EINVAL, path, "is %s; %s is wanted", json_type_name(v), want);
}

static int parse_uint(const struct param *p, const json_t *v, const char *path, void *out,
		      struct err *err)
{
	json_int_t i;

	if (!json_is_integer(v))
		return wrong_type(v, path, "an integer", err);
	i = json_integer_value(v);
	if (i < 0 || (double)i < p->min || (p->max > 0 && (double)i > p->max))
		return err_set(err, EINVAL, path, "%lld is out of range: %.0f to %.0f%s%s are allowed",
			       (long long)i, p->min, p->max > 0 ? p->max : 9e18, p->unit ? " " : "",
			       p->unit ? p->unit : "");
	*(uint64_t *)out = i;
	return 0;
}

static int parse_double(const struct param *p, const json_t *v, const char *path, void *out,
			struct err *err)
{
	double d;

	if (!json_is_number(v))
		return wrong_type(v, path, "a number", err);
	d = json_number_value(v);
	if (d < p->min || (p->max > 0 && d > p->max))
		return err_set(err, EINVAL, path, "%g is out of range: %g to %g%s%s are allowed", d,
			       p->min, p->max > 0 ? p->max : INFINITY, p->unit ? " " : "",
			       p->unit ? p->unit : "");
	*(double *)out = d;
	return 0;
}

static int parse_string(const struct param *p, const json_t *v, const char *path, void *out,
			struct err *err)
{
	if (!json_is_string(v))
		return wrong_type(v, path, "a string", err);
	if (p->type == PARAM_FILE && access(json_string_value(v), R_OK))
		return err_set(err, EINVAL, path, "cannot read file \"%.200s\": %s",
			       json_string_value(v), strerror(errno));
	*(char **)out = strdup(json_string_value(v));
	return *(char **)out ? 0 : err_set(err, ENOMEM, path, "out of memory");
}

static int parse_enum(const struct param *p, const json_t *v, const char *path, void *out,
		      struct err *err)
{
	char allowed[160] = "";

	if (!json_is_string(v))
		return wrong_type(v, path, "a word", err);
	for (uint32_t i = 0; p->choices[i]; i++) {
		if (!strcmp(p->choices[i], json_string_value(v))) {
			*(uint32_t *)out = i;
			return 0;
		}
		snprintf(allowed + strlen(allowed), sizeof(allowed) - strlen(allowed), "%s%s",
			 i ? ", " : "", p->choices[i]);
	}
	return err_set(err, EINVAL, path, "\"%.60s\" is not known; allowed: %s",
		       json_string_value(v), allowed);
}

static int parse_addr(const struct param *p, const json_t *v, const char *path, void *out,
		      struct err *err)
{
	bool ip = p->type == PARAM_IP;
	int rc;

	if (!json_is_string(v))
		return wrong_type(v, path, ip ? "an IP address" : "a MAC address", err);
	rc = ip ? param_ip_parse(json_string_value(v), out)
		: param_mac_parse(json_string_value(v), out);
	if (rc)
		return err_set(err, EINVAL, path, "\"%.60s\" is not %s", json_string_value(v),
			       ip ? "an IPv4 or IPv6 address or prefix"
				  : "a MAC address such as 02:00:00:00:00:01");
	return 0;
}

static int parse_one(const struct param *p, const json_t *v, const char *path, void *out,
		     struct err *err)
{
	switch (p->type) {
	case PARAM_BOOL:
		if (!json_is_boolean(v))
			return wrong_type(v, path, "true or false", err);
		*(bool *)out = json_is_true(v);
		return 0;
	case PARAM_UINT:
		return parse_uint(p, v, path, out, err);
	case PARAM_DOUBLE:
		return parse_double(p, v, path, out, err);
	case PARAM_STRING:
	case PARAM_FILE:
	case PARAM_OUTPUT:
		return parse_string(p, v, path, out, err);
	case PARAM_ENUM:
		return parse_enum(p, v, path, out, err);
	case PARAM_MAC:
	case PARAM_IP:
		return parse_addr(p, v, path, out, err);
	case PARAM_OBJECT:
		return param_parse(p->fields, v, path, out, err);
	}
	return err_set(err, EINVAL, path, "unsupported parameter type");
}

static void free_one(const struct param *p, void *out)
{
	if (p->type == PARAM_STRING || p->type == PARAM_FILE || p->type == PARAM_OUTPUT) {
		free(*(char **)out);
		*(char **)out = NULL;
	} else if (p->type == PARAM_OBJECT) {
		param_free(p->fields, out);
	}
}

static int parse_list(const struct param *p, const json_t *v, const char *path,
		      struct param_list *list, struct err *err)
{
	size_t size = type_size(p);
	char sub[192];
	size_t n;
	int rc;

	if (!json_is_array(v))
		return wrong_type(v, path, "a list", err);
	n = json_array_size(v);
	if (!n)
		return 0;
	list->items = calloc(n, size);
	if (!list->items)
		return err_set(err, ENOMEM, path, "out of memory for %zu entries", n);
	for (size_t i = 0; i < n; i++) {
		snprintf(sub, sizeof(sub), "%.160s[%zu]", path, i);
		/* Counted first: a half-parsed element may own strings. */
		list->count = i + 1;
		rc = parse_one(p, json_array_get(v, i), sub, (char *)list->items + i * size, err);
		if (rc)
			return rc;
	}
	return 0;
}

static int parse_key(const struct param *p, const json_t *v, const char *path, void *out,
		     struct err *err)
{
	void *field = (char *)out + p->offset;
	char sub[192];

	snprintf(sub, sizeof(sub), "%s%s%s", path, *path ? "." : "", p->name);
	return p->list ? parse_list(p, v, sub, field, err) : parse_one(p, v, sub, field, err);
}

static int parse_absent(const struct param *p, const char *path, void *out, struct err *err)
{
	json_error_t jerr;
	json_t *def;
	int rc;

	if (p->required)
		return err_set(err, EINVAL, path, "\"%s\" is missing: %s", p->name,
			       p->doc ? p->doc : "");
	if (p->type == PARAM_OBJECT && !p->list)
		return param_parse(p->fields, NULL, path, (char *)out + p->offset, err);
	if (!p->def)
		return 0;
	def = json_loads(p->def, JSON_DECODE_ANY, &jerr);
	if (!def)
		return err_set(err, EINVAL, path, "default of \"%s\" is not JSON: %s", p->name,
			       p->def);
	rc = parse_key(p, def, path, out, err);
	json_decref(def);
	return rc;
}

static const struct param *find(const struct param *table, const char *name)
{
	for (; table->name; table++)
		if (!strcmp(table->name, name))
			return table;
	return NULL;
}

static int unknown_key(const struct param *table, const char *path, const char *key,
		       struct err *err)
{
	char allowed[256] = "";

	for (; table->name; table++)
		snprintf(allowed + strlen(allowed), sizeof(allowed) - strlen(allowed), "%s%s",
			 *allowed ? ", " : "", table->name);
	return err_set(err, EINVAL, path, "unknown key \"%.40s\"; allowed: %s", key,
		       *allowed ? allowed : "none");
}

int param_parse(const struct param *table, const json_t *obj, const char *path, void *out,
		struct err *err)
{
	const char *key;
	json_t *v;
	int rc = 0;

	if (obj && !json_is_object(obj))
		return wrong_type(obj, path, "an object", err);
	/* json_object_foreach wants a non-const object but does not change it. */
	json_object_foreach((json_t *)obj, key, v) {
		if (!table || !find(table, key))
			return unknown_key(table ? table : &(struct param){0}, path, key, err);
	}
	for (const struct param *p = table; p && p->name && !rc; p++) {
		v = json_object_get(obj, p->name);
		rc = v ? parse_key(p, v, path, out, err) : parse_absent(p, path, out, err);
	}
	if (rc)
		param_free(table, out);
	return rc;
}

static bool one_names_file(const struct param *p, const void *out)
{
	if (p->type == PARAM_FILE)
		return *(char *const *)out;
	return p->type == PARAM_OBJECT && param_names_file(p->fields, out);
}

bool param_names_file(const struct param *table, const void *out)
{
	for (const struct param *p = table; p && p->name; p++) {
		const void *field = (const char *)out + p->offset;
		const struct param_list *list = field;

		if (!p->list && one_names_file(p, field))
			return true;
		for (size_t i = 0; p->list && i < list->count; i++)
			if (one_names_file(p, (const char *)list->items + i * type_size(p)))
				return true;
	}
	return false;
}

void param_free(const struct param *table, void *out)
{
	for (const struct param *p = table; p && p->name; p++) {
		void *field = (char *)out + p->offset;
		struct param_list *list = field;

		if (!p->list) {
			free_one(p, field);
			continue;
		}
		for (size_t i = 0; i < list->count; i++)
			free_one(p, (char *)list->items + i * type_size(p));
		free(list->items);
		list->items = NULL;
		list->count = 0;
	}
}

static void schema_range(const struct param *p, json_t *s)
{
	if (p->type == PARAM_UINT) {
		json_object_set_new(s, "minimum", json_integer((json_int_t)p->min));
		if (p->max > 0)
			json_object_set_new(s, "maximum", json_integer((json_int_t)p->max));
		return;
	}
	json_object_set_new(s, "minimum", json_real(p->min));
	if (p->max > 0)
		json_object_set_new(s, "maximum", json_real(p->max));
}

static json_t *schema_type(const struct param *p)
{
	json_t *choices;

	switch (p->type) {
	case PARAM_BOOL:
		return json_pack("{s:s}", "type", "boolean");
	case PARAM_UINT:
		return json_pack("{s:s}", "type", "integer");
	case PARAM_DOUBLE:
		return json_pack("{s:s}", "type", "number");
	case PARAM_STRING:
		return json_pack("{s:s}", "type", "string");
	case PARAM_FILE:
		return json_pack("{s:s, s:s}", "type", "string", "format", "file");
	case PARAM_OUTPUT:
		return json_pack("{s:s, s:s}", "type", "string", "format", "output");
	case PARAM_MAC:
		return json_pack("{s:s, s:s, s:s}", "type", "string", "format", "mac", "pattern",
				 "^([0-9A-Fa-f]{1,2}:){5}[0-9A-Fa-f]{1,2}$");
	case PARAM_IP:
		return json_pack("{s:s, s:s}", "type", "string", "format", "ip");
	case PARAM_ENUM:
		choices = json_array();
		for (const char *const *c = p->choices; *c; c++)
			json_array_append_new(choices, json_string(*c));
		return json_pack("{s:s, s:o}", "type", "string", "enum", choices);
	case PARAM_OBJECT:
		return param_schema(p->fields);
	}
	return json_object();
}

static json_t *schema_one(const struct param *p)
{
	json_t *s = schema_type(p);

	if (p->type == PARAM_UINT || p->type == PARAM_DOUBLE)
		schema_range(p, s);
	if (p->list)
		s = json_pack("{s:s, s:o}", "type", "array", "items", s);
	if (p->doc)
		json_object_set_new(s, "description", json_string(p->doc));
	if (p->unit)
		json_object_set_new(s, "unit", json_string(p->unit));
	if (p->def)
		json_object_set_new(s, "default", json_loads(p->def, JSON_DECODE_ANY, NULL));
	return s;
}

json_t *param_schema(const struct param *table)
{
	json_t *props = json_object(), *required = json_array();
	json_t *s;

	for (const struct param *p = table; p && p->name; p++) {
		json_object_set_new(props, p->name, schema_one(p));
		if (p->required)
			json_array_append_new(required, json_string(p->name));
	}
	s = json_pack("{s:s, s:b, s:o}", "type", "object", "additionalProperties", 0, "properties",
		      props);
	if (json_array_size(required))
		json_object_set_new(s, "required", required);
	else
		json_decref(required);
	return s;
}
