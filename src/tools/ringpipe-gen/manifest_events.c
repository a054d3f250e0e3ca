/* SPDX-License-Identifier: MIT */
/* Events: their numbers, and the rows that they refer to. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <ringpipe/types.h>

#include "tools/ringpipe-gen/manifest_text.h"

/* The rows that every manifest may use, because the system defines them. */
static const struct rp_manifest_name win_levels[] = {
	{ .name = "win:LogAlways", .value = 0 },
	{ .name = "win:Critical", .value = 1 },
	{ .name = "win:Error", .value = 2 },
	{ .name = "win:Warning", .value = 3 },
	{ .name = "win:Informational", .value = 4 },
	{ .name = "win:Verbose", .value = 5 },
	{ .name = NULL },
}, win_opcodes[] = {
	{ .name = "win:Info", .value = 0 },
	{ .name = "win:Start", .value = 1 },
	{ .name = "win:Stop", .value = 2 },
	{ .name = "win:DC_Start", .value = 3 },
	{ .name = "win:DC_Stop", .value = 4 },
	{ .name = "win:Extension", .value = 5 },
	{ .name = "win:Reply", .value = 6 },
	{ .name = "win:Resume", .value = 7 },
	{ .name = "win:Suspend", .value = 8 },
	{ .name = "win:Send", .value = 9 },
	{ .name = "win:Receive", .value = 240 },
	{ .name = NULL },
}, win_keywords[] = {
	{ .name = "win:ResponseTime", .value = 1ull << 48 },
	{ .name = "win:WDIContext", .value = 1ull << 49 },
	{ .name = "win:WDIDiag", .value = 1ull << 50 },
	{ .name = "win:SQM", .value = 1ull << 51 },
	{ .name = "win:AuditFailure", .value = 1ull << 52 },
	{ .name = "win:AuditSuccess", .value = 1ull << 53 },
	{ .name = "win:CorrelationHint", .value = 1ull << 52 },
	{ .name = "win:EventlogClassic", .value = 1ull << 55 },
	{ .name = NULL },
}, win_tasks[] = {
	{ .name = "win:None", .value = 0 },
	{ .name = NULL },
};

/* Return: the row with this name that any event, or an event of this task, may use; NULL. */
static const struct rp_manifest_name *find_name(const struct rp_manifest_name *rows,
						const struct rp_manifest_name *win_rows,
						const struct rp_manifest_name *task,
						const char *name, size_t length)
{
	const struct rp_manifest_name *common = NULL;

	for (; win_rows->name; win_rows++) {
		if (strlen(win_rows->name) == length && !memcmp(win_rows->name, name, length))
			return win_rows;
	}
	for (; rows; rows = rows->next) {
		if (strlen(rows->name) != length || memcmp(rows->name, name, length) != 0)
			continue;
		if (rows->task && rows->task == task)
			return rows;
		if (!rows->task && !common)
			common = rows;
	}
	return common;
}

/* Find the row that an optional attribute names. Return: 0; -EBADMSG, after an error line. */
static int refer(struct rp_manifest *manifest, const struct rp_xml_element *element,
		 const char *attribute, const struct rp_manifest_name *rows,
		 const struct rp_manifest_name *win_rows, const struct rp_manifest_name *task,
		 const struct rp_manifest_name **ret_row)
{
	const char *name = rp_xml_attribute(element, attribute);

	if (!name || !*name)
		return 0;
	*ret_row = find_name(rows, win_rows, task, name, strlen(name));
	if (!*ret_row)
		return rp_manifest_error(manifest, element, "the %s of an event is defined; \"%s\" "
					 "is not", attribute, name);
	return 0;
}

static int read_keywords(struct rp_manifest *manifest, const struct rp_xml_element *element,
			 const struct rp_manifest_provider *provider, uint64_t *ret_keywords)
{
	const char *text = rp_xml_attribute(element, "keywords");

	while (text && *(text += strspn(text, " \t\r\n"))) {
		size_t length = strcspn(text, " \t\r\n");
		const struct rp_manifest_name *found = find_name(provider->keywords, win_keywords,
								 NULL, text, length);

		if (!found)
			return rp_manifest_error(manifest, element, "the keywords of an event are "
						 "defined; \"%.*s\" is not", (int)length, text);
		*ret_keywords |= found->value;
		text += length;
	}
	return 0;
}

static int refer_template(struct rp_manifest *manifest, const struct rp_xml_element *element,
			  const struct rp_manifest_provider *provider,
			  struct rp_manifest_event *event)
{
	const char *name = rp_xml_attribute(element, "template");

	if (!name || !*name)
		return 0;
	event->template = provider->templates;
	while (event->template && strcmp(event->template->name, name) != 0)
		event->template = event->template->next;
	if (!event->template)
		return rp_manifest_error(manifest, element, "the template of an event is defined; "
					 "\"%s\" is not", name);
	return 0;
}

/* The name of an event's functions: its symbol or name, or the names of its task and opcode. */
static int name_event(struct rp_manifest *manifest, struct rp_manifest_event *event)
{
	const char *symbol = rp_xml_attribute(event->element, "symbol"), *opcode = "";
	char text[RP_NAME_MAX + 1];
	int length;

	if (!symbol || !*symbol)
		symbol = rp_xml_attribute(event->element, "name");
	if (event->opcode && event->opcode->value)
		opcode = event->opcode->name + (strncmp(event->opcode->name, "win:", 4) ? 0 : 4);
	if (symbol && *symbol)
		length = snprintf(text, sizeof(text), "%s", symbol);
	else if (event->task && event->task->value)
		length = snprintf(text, sizeof(text), "%s%s%s_%u_V%u", event->task->name,
				  *opcode ? "_" : "", opcode, event->id, event->version);
	else
		length = snprintf(text, sizeof(text), "Event_%u_V%u", event->id, event->version);
	if (length >= (int)sizeof(text))
		return rp_manifest_error(manifest, event->element,
					 "the name of an event has up to %u bytes", RP_NAME_MAX);
	event->symbol = rp_manifest_symbol(manifest, text);
	return event->symbol ? 0 : rp_manifest_out_of_memory();
}

static int read_event(struct rp_manifest *manifest, const struct rp_manifest_provider *provider,
		      const struct rp_xml_element *element, struct rp_manifest_event *event)
{
	uint64_t id = 0, version = 0;
	int ret;

	event->element = element;
	ret = rp_manifest_number(manifest, element, "value", true, RP_EVENT_ID_MAX, &id);
	if (ret == 0)
		ret = rp_manifest_number(manifest, element, "version", false, UINT8_MAX, &version);
	if (ret == 0)
		ret = refer(manifest, element, "task", provider->tasks, win_tasks, NULL,
			    &event->task);
	if (ret == 0)
		ret = refer(manifest, element, "opcode", provider->opcodes, win_opcodes,
			    event->task, &event->opcode);
	if (ret == 0)
		ret = refer(manifest, element, "level", provider->levels, win_levels, NULL,
			    &event->level);
	if (ret == 0)
		ret = read_keywords(manifest, element, provider, &event->keywords);
	if (ret == 0)
		ret = refer_template(manifest, element, provider, event);
	if (ret == 0)
		ret = rp_manifest_message(manifest, element, &event->message);
	if (ret < 0)
		return ret;
	event->id = (uint16_t)id;
	event->version = (uint8_t)version;
	if (event->level && event->level->value > RP_LEVEL_VERBOSE)
		return rp_manifest_error(manifest, element, "the level of an event is at most %d",
					 RP_LEVEL_VERBOSE);
	if (event->opcode && event->opcode->value > UINT8_MAX)
		return rp_manifest_error(manifest, element, "an event's opcode is at most 255");
	return name_event(manifest, event);
}

/* The id and version identify an event, and the name identifies its functions. */
static int check_unique(struct rp_manifest *manifest, const struct rp_manifest_provider *provider,
			const struct rp_manifest_event *event)
{
	for (const struct rp_manifest_event *other = provider->events; other; other = other->next) {
		if (other->id == event->id && other->version == event->version)
			return rp_manifest_error(manifest, event->element, "the value and version "
						 "of an event are unique; line %lu has %u and %u",
						 other->element->line, event->id, event->version);
		if (!strcmp(other->symbol, event->symbol))
			return rp_manifest_error(manifest, event->element, "the symbol of an event "
						 "is unique; line %lu has \"%s\"",
						 other->element->line, event->symbol);
	}
	return 0;
}

int rp_manifest_read_events(struct rp_manifest *manifest, struct rp_manifest_provider *provider,
			    const struct rp_xml_element *section)
{
	struct rp_manifest_event **end = &provider->events;
	const struct rp_xml_element *each;

	for (each = rp_xml_find(section->children, "event"); each;
	     each = rp_xml_find(each->next, "event")) {
		struct rp_manifest_event *event = rp_xml_allocate(&manifest->tree, sizeof(*event));
		int ret = event ? read_event(manifest, provider, each, event) :
			  rp_manifest_out_of_memory();

		if (ret == 0)
			ret = check_unique(manifest, provider, event);
		if (ret < 0)
			return ret;
		*end = event;
		end = &event->next;
	}
	return 0;
}
