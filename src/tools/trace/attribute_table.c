/* SPDX-License-Identifier: MIT */
#include "tools/trace/attribute_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ringpipe/field.h>

#include "base/array.h"
#include "tools/trace/input.h"
#include "tools/trace/machine_clock.h"
#include "tools/trace/system_event.h"
#include "tools/trace/trace_symbols.h"

enum event_kind { OTHER, ATTRIBUTE, DESCRIPTION, PROCESS_CREATE };

static enum event_kind find_kind(const struct rp_reader_type *type)
{
	if (!strcmp(type->provider, RP_SYSTEM_PROVIDER))
		return type->id == RP_SYSTEM_PROCESS_CREATE ? PROCESS_CREATE : OTHER;
	if (strcmp(type->provider, RP_MACHINE_PROVIDER) != 0)
		return OTHER;
	return !strcmp(type->name, RP_MACHINE_EVENT_ATTRIBUTE) ? ATTRIBUTE :
	       !strcmp(type->name, RP_MACHINE_EVENT_DESCRIPTION) ? DESCRIPTION : OTHER;
}

/* Return: where the process is, or else belongs. */
static size_t place_of(const struct rp_attribute_table *table, uint64_t process)
{
	return RP_PARTITION_POINT(i, table->count, table->processes[i].process < process);
}

static struct rp_attribute_process *find(const struct rp_attribute_table *table, uint64_t process)
{
	const size_t at = place_of(table, process);

	return at < table->count && table->processes[at].process == process ?
	       &table->processes[at] : NULL;
}

const struct rp_attribute_process *
rp_attribute_table_find(const struct rp_attribute_table *table, uint64_t process)
{
	const struct rp_attribute_process *found = find(table, process);

	return found && found->count ? found : NULL;
}

const char *rp_attribute_table_value(const struct rp_attribute_table *table, uint64_t process,
				     const char *key)
{
	const struct rp_attribute_process *found = find(table, process);

	for (size_t i = 0; found && i < found->count; i++) {
		if (!strcmp(found->rows[i].key, key))
			return found->rows[i].value;
	}
	return NULL;
}

/* Return: NULL: no memory. */
static struct rp_attribute_process *add(struct rp_attribute_table *table, uint64_t process)
{
	const size_t at = place_of(table, process);
	struct rp_attribute_process *grown = rp_array_reserve(table->processes, table->count,
							      &table->capacity, 1, sizeof(*grown));

	if (!grown)
		return NULL;
	table->processes = grown;
	memmove(&grown[at + 1], &grown[at], (table->count - at) * sizeof(*grown));
	grown[at] = (struct rp_attribute_process){ .process = process };
	table->count++;
	return &grown[at];
}

/* Get a field's text. Return: whether the event has it, and the table may keep it. */
static bool take_text(struct rp_attribute_table *table, const struct rp_fields *fields,
		      const char *name, char *text)
{
	struct rp_value value = RP_VALUE_INIT;

	if (rp_fields_find(fields, name, &value) != 0)
		return false;
	(void)rp_value_get_text(&value, text, RP_ATTRIBUTE_TEXT_BYTES);
	if (strlen(text) >= RP_ATTRIBUTE_BYTES_MAX - table->bytes)
		return false;
	table->bytes += strlen(text);
	return true;
}

const char *rp_attribute_type_name(enum rp_attribute_type type)
{
	static const char *const names[] = { "string", "bool", "int", "double" };

	return names[type];
}

static bool fits(const char *value, enum rp_attribute_type type)
{
	char *end = NULL;

	errno = 0;
	switch (type) {
	case RP_ATTRIBUTE_BOOL:
		return !strcmp(value, "true") || !strcmp(value, "false");
	case RP_ATTRIBUTE_INTEGER:
		if (value[strspn(value, "-0123456789")])
			return false;
		(void)strtoll(value, &end, 10);
		return end != value && !*end && errno == 0;
	case RP_ATTRIBUTE_DOUBLE:
		(void)strtod(value, &end);
		return end != value && !*end;
	default:
		return true;
	}
}

/* Return: the type that an event states for its value, if the value fits it. */
static enum rp_attribute_type type_of(const struct rp_fields *fields, const char *value)
{
	struct rp_value stated = RP_VALUE_INIT;
	char text[16];

	if (rp_fields_find(fields, "type", &stated) != 0)
		return RP_ATTRIBUTE_TEXT;
	(void)rp_value_get_text(&stated, text, sizeof(text));
	for (enum rp_attribute_type type = 0; type < RP_ATTRIBUTE_TYPE_COUNT; type++) {
		if (!strcmp(text, rp_attribute_type_name(type)) && fits(value, type))
			return type;
	}
	return RP_ATTRIBUTE_TEXT;
}

/* Set the value of a key. Return: as rp_attribute_table_take(). */
static int set(struct rp_attribute_table *table, struct rp_attribute_process *process,
	       const char *key, const char *value, enum rp_attribute_type type)
{
	struct rp_attribute row = {
		.key = rp_text_pool_add(&table->texts, key),
		.value = rp_text_pool_add(&table->texts, value),
		.type = type,
	}, *grown;

	if (!row.key || !row.value)
		return -ENOMEM;
	for (size_t i = 0; i < process->count; i++) {
		if (process->rows[i].key != row.key)
			continue;
		process->rows[i] = row;
		return 1;
	}
	if (process->count == RP_ATTRIBUTES_OF_PROCESS_MAX)
		return 0;
	grown = rp_array_reserve(process->rows, process->count, &process->capacity, 1,
				 sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	process->rows = grown;
	grown[process->count++] = row;
	table->row_count++;
	return 1;
}

static int take_attribute(struct rp_attribute_table *table, const struct rp_reader_event *event)
{
	struct rp_attribute_process *process = find(table, event->process);
	char key[RP_ATTRIBUTE_TEXT_BYTES], value[RP_ATTRIBUTE_TEXT_BYTES];
	struct rp_value published = RP_VALUE_INIT;
	struct rp_fields fields;

	rp_reader_get_fields(event, &fields);
	if (table->row_count >= RP_ATTRIBUTES_MAX ||
	    rp_fields_find(&fields, "published_ns", &published) != 0 ||
	    !take_text(table, &fields, "key", key) || !*key ||
	    !take_text(table, &fields, "value", value))
		return 0;
	if (!process && table->count >= RP_ATTRIBUTES_MAX)
		return 0;
	if (!process)
		process = add(table, event->process);
	if (!process)
		return -ENOMEM;
	if (process->published_ns != published.u64) {
		table->row_count -= process->count;
		process->count = 0;
		process->published_ns = published.u64;
	}
	return set(table, process, key, value, type_of(&fields, value));
}

/* A merged trace may have events of several machines, and does not say whose the others are. */
static int take_host(struct rp_attribute_table *table, const struct rp_reader_event *event)
{
	char host[RP_ATTRIBUTE_TEXT_BYTES];
	const char *before = table->host;
	struct rp_fields fields;

	rp_reader_get_fields(event, &fields);
	if (table->has_hosts || !take_text(table, &fields, "host", host) || !*host)
		return 0;
	table->has_hosts = before && strcmp(before, host) != 0;
	table->host = table->has_hosts ? NULL : rp_text_pool_add(&table->texts, host);
	if (!table->host && !table->has_hosts)
		return -ENOMEM;
	return table->host != before;
}

int rp_attribute_table_take(struct rp_attribute_table *table, const struct rp_reader_event *event)
{
	struct rp_attribute_process *process;

	switch (find_kind(event->type)) {
	case ATTRIBUTE:
		return take_attribute(table, event);
	case DESCRIPTION:
		return take_host(table, event);
	case PROCESS_CREATE:
		process = find(table, event->process);
		if (!process || !process->count)
			return 0;
		table->row_count -= process->count;
		process->count = 0;
		return 1;
	default:
		return 0;
	}
}

int rp_attribute_table_read(struct rp_attribute_table *table, const char *path)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_processes processes = { 0 };
	struct rp_reader *reader;
	struct rp_input input;
	int ret = rp_input_open(&input, path, -1, &reader);

	if (ret)
		return ret == -ENOMEM ? ret : 0;
	while (ret >= 0 && rp_reader_next(reader, &event) == 1) {
		ret = rp_processes_follow_id(&processes, &event, &event.process);
		if (ret == 0)
			ret = rp_attribute_table_take(table, &event);
	}
	rp_processes_fini(&processes);
	rp_reader_close(reader);
	rp_input_close(&input);
	return ret < 0 ? ret : 0;
}

void rp_attribute_table_fini(struct rp_attribute_table *table)
{
	for (size_t i = 0; i < table->count; i++)
		free(table->processes[i].rows);
	free(table->processes);
	rp_text_pool_fini(&table->texts);
	*table = (struct rp_attribute_table){ 0 };
}
