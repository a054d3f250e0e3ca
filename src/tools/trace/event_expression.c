/* SPDX-License-Identifier: MIT */
/* Runs the program of an expression. */
#include "tools/trace/event_expression_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ringpipe/field.h>

#include "tools/cli/display_text.h"
#include "tools/cli/tool.h"
#include "tools/trace/dotnet.h"
#include "tools/trace/json_event.h"
#include "tools/trace/known_fields.h"

/* A regular expression searches this much of a text. */
#define REGEX_BYTES 65536u
/* The other operators need the longest value, and a character after it. */
#define COMPARE_BYTES (RP_EXPRESSION_BYTES_MAX + 8)
#define GUID_BYTES 37

static int prepare(struct rp_expression *expression)
{
	const size_t entries = RP_TYPE_SETS * RP_TYPE_WAYS, count = expression->comparison_count;

	expression->scratch_bytes = COMPARE_BYTES;
	for (size_t i = 0; i < count; i++) {
		if (expression->comparisons[i].has_regex)
			expression->scratch_bytes = REGEX_BYTES;
	}
	expression->scratch = malloc(expression->scratch_bytes);
	expression->outcomes = calloc(expression->code_count + 1, sizeof(*expression->outcomes));
	expression->type_comparisons = calloc(entries * count, sizeof(struct rp_type_comparison));
	if (!expression->scratch || !expression->outcomes || !expression->type_comparisons)
		return -ENOMEM;
	for (size_t i = 0; i < entries; i++)
		expression->types[i].comparisons = expression->type_comparisons + i * count;
	return 0;
}

int rp_expression_compile(const char *text, struct rp_expression **ret_expression,
			  struct rp_expression_error *ret_error)
{
	struct rp_expression *expression = calloc(1, sizeof(*expression));
	int ret = expression ? rp_expression_parse(text, expression, ret_error) : -ENOMEM;

	if (ret == 0)
		ret = prepare(expression);
	if (ret) {
		rp_expression_destroy(expression);
		return ret;
	}
	*ret_expression = expression;
	return 0;
}

void rp_expression_destroy(struct rp_expression *expression)
{
	if (!expression)
		return;
	for (size_t i = 0; i < expression->comparison_count; i++) {
		struct rp_comparison *comparison = &expression->comparisons[i];

		if (comparison->has_regex)
			regfree(&comparison->regex);
		free(comparison->field);
		free(comparison->text);
		free(comparison->units);
	}
	free(expression->comparisons);
	free(expression->code);
	free(expression->outcomes);
	free(expression->type_comparisons);
	free(expression->scratch);
	rp_expression_forget_json(expression);
	free(expression);
}

int rp_expression_take(const char *option, const char *text,
		       struct rp_expression **ret_expression)
{
	struct rp_expression_error error;
	int ret = rp_expression_compile(text, ret_expression, &error);

	if (ret == -EINVAL)
		rp_expression_explain(option, text, &error);
	else if (ret)
		rp_tool_error("%s: %s", option, strerror(-ret));
	return ret;
}

void rp_expression_forget(struct rp_expression *expression)
{
	for (size_t i = 0; i < RP_TYPE_SETS * RP_TYPE_WAYS; i++)
		expression->types[i].type = NULL;
	expression->last = NULL;
	rp_expression_forget_json(expression);
}

static struct rp_operand take_integer(__int128 integer)
{
	return (struct rp_operand){ .kind = RP_OPERAND_INTEGER, .integer = integer };
}

static struct rp_operand take_text(const char *text, size_t bytes)
{
	return (struct rp_operand){ .kind = RP_OPERAND_TEXT, .text = text, .bytes = bytes };
}

static struct rp_operand take_id(struct rp_expression *expression, const uint8_t *bytes,
				 size_t size, bool has_dashes)
{
	size_t at = 0;

	for (size_t i = 0; i < size; i++)
		at += (size_t)snprintf(expression->scratch + at, GUID_BYTES - at,
				       has_dashes && i >= 4 && i <= 10 && !(i & 1) ? "-%02x" :
				       "%02x", bytes[i]);
	return (struct rp_operand){ .kind = RP_OPERAND_ID, .text = expression->scratch,
				    .bytes = at };
}

/* Zeros mean that the event has no such id. */
static struct rp_operand take_own_id(struct rp_expression *expression, const uint8_t *bytes,
				     size_t size, bool has_dashes)
{
	static const uint8_t none[16];

	return memcmp(bytes, none, size) ? take_id(expression, bytes, size, has_dashes) :
	       (struct rp_operand){ .kind = RP_OPERAND_NONE };
}

/* W3C writes a span's id as the digits of a number. */
static struct rp_operand take_span(struct rp_expression *expression, uint64_t id)
{
	uint8_t bytes[8];

	for (int i = 0; i < 8; i++)
		bytes[i] = (uint8_t)(id >> (56 - 8 * i));
	return take_own_id(expression, bytes, sizeof(bytes), false);
}

/* A time as rp_reader_print_json() prints it, in units of 100 ns. */
static struct rp_operand take_time(struct rp_expression *expression, int64_t utc_ns)
{
	const size_t digits_end = sizeof("2026-11-21T01:02:03.0040050") - 1;

	rp_text_utc_ns(utc_ns, expression->scratch);
	strcpy(expression->scratch + digits_end, "Z");
	return take_text(expression->scratch, digits_end + 1);
}

static struct rp_operand take_value(struct rp_expression *expression,
				    const struct rp_comparison *comparison,
				    const struct rp_value *value)
{
	if (comparison->operator == RP_OPERATOR_HAS)
		return (struct rp_operand){ .kind = RP_OPERAND_OTHER };
	if (value->type == RP_TYPE_STRING16 && comparison->units)
		return (struct rp_operand){ .kind = RP_OPERAND_UTF16, .text = value->bytes,
					    .bytes = value->size_bytes };
	switch (value->type) {
	case RP_TYPE_BOOL:
		return (struct rp_operand){ .kind = RP_OPERAND_BOOL, .truth = value->u64 };
	case RP_TYPE_I8:
	case RP_TYPE_I16:
	case RP_TYPE_I32:
	case RP_TYPE_I64:
		return take_integer(value->i64);
	case RP_TYPE_U8:
	case RP_TYPE_U16:
	case RP_TYPE_U32:
	case RP_TYPE_U64:
	case RP_TYPE_POINTER:
		return take_integer(value->u64);
	case RP_TYPE_F32:
	case RP_TYPE_F64:
		return (struct rp_operand){ .kind = RP_OPERAND_REAL, .real = value->f64 };
	case RP_TYPE_STRING:
		return take_text(value->bytes, value->size_bytes);
	case RP_TYPE_CHAR:
	case RP_TYPE_STRING16:
		return take_text(expression->scratch,
				 rp_value_get_text(value, expression->scratch,
						   expression->scratch_bytes));
	case RP_TYPE_GUID:
		return take_id(expression, value->guid.bytes, sizeof(value->guid.bytes), true);
	case RP_TYPE_TIME:
		return take_time(expression, value->i64);
	}
	return (struct rp_operand){ .kind = RP_OPERAND_OTHER };
}

/* Find the member whose path begins at `name`, in a struct. */
static int find_member(struct rp_value *value, const char *name)
{
	char part[RP_EXPRESSION_BYTES_MAX];

	while (*name) {
		const size_t length = strcspn(name, ".");
		struct rp_fields inner = value->inner;

		if (value->type != RP_TYPE_STRUCT || length >= sizeof(part))
			return -ENOENT;
		memcpy(part, name, length);
		part[length] = '\0';
		if (rp_fields_find(&inner, part, value) != 0)
			return -ENOENT;
		name += length + (name[length] == '.');
	}
	return 0;
}

/* A number whose place is the same in all events of the type. */
static struct rp_operand take_direct(const struct rp_type_comparison *of_type,
				     const uint8_t *bytes)
{
	const unsigned int unused_bits = 64 - 8 * of_type->direct_bytes;
	uint64_t number = 0;
	double real;

	/* The bytes of traces and of all machines that the library supports are little-endian. */
	memcpy(&number, bytes, of_type->direct_bytes);
	switch (of_type->direct) {
	case RP_TYPE_F64:
		memcpy(&real, &number, sizeof(real));
		return (struct rp_operand){ .kind = RP_OPERAND_REAL, .real = real };
	case RP_TYPE_I8:
	case RP_TYPE_I16:
	case RP_TYPE_I32:
	case RP_TYPE_I64:
		return take_integer((int64_t)(number << unused_bits) >> unused_bits);
	}
	return take_integer(number);
}

static struct rp_operand take_field(struct rp_expression *expression,
				    const struct rp_comparison *comparison,
				    const struct rp_type_comparison *of_type,
				    const struct rp_reader_event *event)
{
	struct rp_value value = RP_VALUE_INIT;
	struct rp_fields fields;

	if (of_type->direct && event->payload_bytes >= of_type->bytes_before &&
	    event->payload_bytes - of_type->bytes_before >= of_type->direct_bytes)
		return take_direct(of_type, (const uint8_t *)event->payload +
				   of_type->bytes_before);
	rp_reader_get_fields(event, &fields);
	fields.fields = rp_known_fields(event->type, &fields.left);
	if ((size_t)(fields.end - fields.at) < of_type->bytes_before)
		return (struct rp_operand){ .kind = RP_OPERAND_NONE };
	/* The walk continues after the fields whose sizes are known. */
	fields.at += of_type->bytes_before;
	fields.fields = (const struct rp_reader_field *)fields.fields + of_type->fields_before;
	fields.left -= of_type->fields_before;
	for (uint32_t i = 0; i <= of_type->fields_between; i++) {
		if (rp_fields_next(&fields, &value) != 1)
			return (struct rp_operand){ .kind = RP_OPERAND_NONE };
	}
	if (of_type->is_member && find_member(&value, comparison->field + of_type->member_at))
		return (struct rp_operand){ .kind = RP_OPERAND_NONE };
	return take_value(expression, comparison, &value);
}

static struct rp_operand take_operand(struct rp_expression *expression,
				      const struct rp_comparison *comparison,
				      const struct rp_type_comparison *of_type,
				      const struct rp_reader_event *event, uint64_t process)
{
	switch (comparison->name) {
	case RP_NAME_FIELD:
		return take_field(expression, comparison, of_type, event);
	case RP_NAME_PROVIDER:
	case RP_NAME_EVENT:
	case RP_NAME_ID:
		break;
	case RP_NAME_LEVEL:
		return take_integer(event->level);
	case RP_NAME_KEYWORDS:
		return take_integer(event->keywords);
	case RP_NAME_OPCODE:
		return take_integer(event->opcode);
	case RP_NAME_VERSION:
		return take_integer(event->event_version);
	case RP_NAME_TIME:
		return take_integer(event->time_ns);
	case RP_NAME_PROCESS:
		return take_integer(process);
	case RP_NAME_THREAD:
		return take_integer(event->thread);
	case RP_NAME_PROCESSOR:
		/* The .NET runtime writes -1 if it does not know the processor. */
		if (event->processor == UINT32_MAX)
			break;
		return take_integer(event->processor);
	case RP_NAME_THREAD_NAME:
		if (!*event->thread_name)
			break;
		return take_text(event->thread_name, strlen(event->thread_name));
	case RP_NAME_ACTIVITY:
		return take_own_id(expression, event->activity.bytes, 16, true);
	case RP_NAME_RELATED_ACTIVITY:
		return take_own_id(expression, event->related_activity.bytes, 16, true);
	case RP_NAME_TRACE_ID:
		return take_own_id(expression, event->trace_id, 16, false);
	case RP_NAME_SPAN_ID:
		return take_span(expression, event->span_id);
	}
	return (struct rp_operand){ .kind = RP_OPERAND_NONE };
}

static bool search(struct rp_expression *expression, const struct rp_comparison *comparison,
		   const struct rp_operand *left)
{
	size_t bytes = left->bytes;

	if (left->kind != RP_OPERAND_TEXT && left->kind != RP_OPERAND_ID)
		return false;
	if (left->text != expression->scratch) {
		if (bytes >= expression->scratch_bytes)
			bytes = expression->scratch_bytes - 1;
		memcpy(expression->scratch, left->text, bytes);
		expression->scratch[bytes] = '\0';
	}
	return regexec(&comparison->regex, expression->scratch, 0, NULL, 0) == 0;
}

static bool holds(struct rp_expression *expression, const struct rp_comparison *comparison,
		  const struct rp_operand *left)
{
	if (comparison->operator == RP_OPERATOR_HAS)
		return left->kind != RP_OPERAND_NONE;
	if (comparison->operator == RP_OPERATOR_REGEX)
		return search(expression, comparison, left);
	return rp_operand_compare(left, comparison);
}

/* Fields of a fixed size have the same place in all events of the type. */
static bool is_fixed(const struct rp_reader_field *field)
{
	return field->wire_bytes && field->type != RP_TYPE_ARRAY &&
	       field->type != RP_TYPE_STRUCT && field->type != RP_TYPE_STRING &&
	       field->type != RP_TYPE_STRING16;
}

static bool is_direct(const struct rp_reader_field *field)
{
	const uint8_t bytes = field->wire_bytes;

	switch (field->type) {
	case RP_TYPE_I8:
	case RP_TYPE_I16:
	case RP_TYPE_I32:
	case RP_TYPE_I64:
	case RP_TYPE_U8:
	case RP_TYPE_U16:
	case RP_TYPE_U32:
	case RP_TYPE_U64:
	case RP_TYPE_POINTER:
		return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
	case RP_TYPE_F64:
		return bytes == 8;
	}
	return false;
}

/* Return: the index of the field with the `length` bytes of this name; `count`: none has it. */
static uint32_t find_field(const struct rp_reader_field *fields, uint32_t count, const char *name,
			   size_t length)
{
	for (uint32_t i = 0; i < count; i++) {
		if (!strncmp(fields[i].name, name, length) && !fields[i].name[length])
			return i;
	}
	return count;
}

static bool has_member(const struct rp_reader_field *field, const char *name)
{
	while (*name) {
		const size_t length = strcspn(name, ".");
		uint32_t index;

		if (field->type != RP_TYPE_STRUCT)
			return false;
		index = find_field(field->members, field->member_count, name, length);
		if (index == field->member_count)
			return false;
		field = &field->members[index];
		name += length + (name[length] == '.');
	}
	return true;
}

/*
 * Find the field and the member that a name leads to. The events of counters have one struct, which
 * has no name; its members are found as if they were fields.
 * Return: the index of the field; `count`: none.
 */
static uint32_t find_path(const struct rp_reader_field *fields, uint32_t count, const char *name,
			  uint32_t *ret_member_at)
{
	const size_t length = strcspn(name, ".");
	uint32_t index = name[length] ? find_field(fields, count, name, length) : count;

	*ret_member_at = (uint32_t)length + 1;
	if (index < count && has_member(&fields[index], name + *ret_member_at))
		return index;
	*ret_member_at = 0;
	index = find_field(fields, count, "", 0);
	return index < count && has_member(&fields[index], name) ? index : count;
}

/* A name with dots may be that of a field, as OpenTelemetry's are, or lead to a member. */
static void learn_field(const struct rp_reader_type *type, const struct rp_comparison *comparison,
			struct rp_type_comparison *ret_of_type)
{
	uint32_t count;
	const struct rp_reader_field *fields = rp_known_fields(type, &count);
	uint32_t index;

	if (rp_json_event_is(type)) {
		*ret_of_type = (struct rp_type_comparison){ .result = RP_KNOWN_PER_EVENT };
		return;
	}
	*ret_of_type = (struct rp_type_comparison){ .result = RP_KNOWN_FALSE };
	index = find_field(fields, count, comparison->field, strlen(comparison->field));
	if (index == count) {
		index = find_path(fields, count, comparison->field, &ret_of_type->member_at);
		if (index == count)
			return;
		ret_of_type->is_member = true;
	}
	ret_of_type->result = RP_KNOWN_PER_EVENT;
	while (ret_of_type->fields_before < index && is_fixed(&fields[ret_of_type->fields_before]))
		ret_of_type->bytes_before += fields[ret_of_type->fields_before++].wire_bytes;
	ret_of_type->fields_between = index - ret_of_type->fields_before;
	if (!ret_of_type->fields_between && !ret_of_type->is_member &&
	    is_direct(&fields[index])) {
		ret_of_type->direct = fields[index].type;
		ret_of_type->direct_bytes = fields[index].wire_bytes;
	}
}

void rp_expression_learn(struct rp_expression *expression, const struct rp_reader_type *type,
			 const struct rp_comparison *comparison,
			 struct rp_type_comparison *ret_of_type)
{
	const char *name = *type->name ? type->name : rp_dotnet_event_name(type);
	struct rp_operand left;

	if (comparison->name == RP_NAME_FIELD) {
		learn_field(type, comparison, ret_of_type);
		return;
	}
	*ret_of_type = (struct rp_type_comparison){ .result = RP_KNOWN_PER_EVENT };
	if (comparison->name == RP_NAME_PROVIDER)
		left = take_text(type->provider, strlen(type->provider));
	else if (comparison->name == RP_NAME_EVENT)
		left = take_text(name, strlen(name));
	else if (comparison->name == RP_NAME_ID)
		left = take_integer(type->id);
	else
		return;
	ret_of_type->result = holds(expression, comparison, &left) ? RP_KNOWN_TRUE : RP_KNOWN_FALSE;
}

#define MAY_BE_FALSE 1u
#define MAY_BE_TRUE 2u

/*
 * The function follows the program from its end to its start: outcomes[i][r] are the results that
 * are possible from instruction i on if the last result was r.
 */
enum rp_type_verdict rp_expression_decide(struct rp_expression *expression,
					  const struct rp_type_comparison *comparisons)
{
	uint8_t (*outcomes)[2] = expression->outcomes, all;

	outcomes[expression->code_count][0] = MAY_BE_FALSE;
	outcomes[expression->code_count][1] = MAY_BE_TRUE;
	for (size_t i = expression->code_count; i-- > 0;) {
		const struct rp_instruction *code = &expression->code[i];
		const uint8_t *next = outcomes[i + 1];

		switch (code->kind) {
		case RP_CODE_COMPARE:
			all = comparisons[code->argument].result;
			all = all == RP_KNOWN_FALSE ? next[0] : all == RP_KNOWN_TRUE ? next[1] :
			      next[0] | next[1];
			outcomes[i][0] = outcomes[i][1] = all;
			break;
		case RP_CODE_NOT:
			outcomes[i][0] = next[1];
			outcomes[i][1] = next[0];
			break;
		case RP_CODE_JUMP_IF:
			outcomes[i][0] = next[0];
			outcomes[i][1] = outcomes[code->argument][1];
			break;
		case RP_CODE_JUMP_IF_NOT:
			outcomes[i][0] = outcomes[code->argument][0];
			outcomes[i][1] = next[1];
			break;
		}
	}
	/* A program begins with a comparison, so the result before it does not matter. */
	return outcomes[0][0] == MAY_BE_FALSE ? RP_VERDICT_NEVER :
	       outcomes[0][0] == MAY_BE_TRUE ? RP_VERDICT_ALWAYS : RP_VERDICT_DEPENDS;
}

static const struct rp_type_entry *find_entry(struct rp_expression *expression,
					      const struct rp_reader_type *type)
{
	const size_t set = ((uintptr_t)type >> 4) * 0x9e3779b97f4a7c15u >> 58;
	struct rp_type_entry *entries = &expression->types[set * RP_TYPE_WAYS], *entry;

	for (size_t i = 0; i < RP_TYPE_WAYS; i++) {
		if (entries[i].type == type)
			return &entries[i];
	}
	entry = &entries[expression->next_way[set]++ % RP_TYPE_WAYS];
	entry->type = type;
	for (size_t i = 0; i < expression->comparison_count; i++)
		rp_expression_learn(expression, type, &expression->comparisons[i],
				    &entry->comparisons[i]);
	entry->verdict = rp_expression_decide(expression, entry->comparisons);
	return entry;
}

static bool compare(struct rp_expression *expression, size_t index,
		    const struct rp_type_entry *entry, const struct rp_reader_event *event,
		    uint64_t process)
{
	const struct rp_type_comparison *of_type = &entry->comparisons[index];
	const struct rp_comparison *comparison = &expression->comparisons[index];
	struct rp_operand left;

	if (of_type->result != RP_KNOWN_PER_EVENT)
		return of_type->result == RP_KNOWN_TRUE;
	left = take_operand(expression, comparison, of_type, event, process);
	return holds(expression, comparison, &left);
}

static bool matches_json(struct rp_expression *expression, const struct rp_reader_event *event,
			 uint64_t process)
{
	const struct rp_reader_event *decoded = rp_expression_decode_json(expression, event);

	/* An expression can forget the types at any time, so it has no limit for all events. */
	if (decoded && expression->json->is_full) {
		rp_expression_forget(expression);
		decoded = rp_expression_decode_json(expression, event);
	}
	/* An event whose payload is cut remains a JSON event, and has no fields. */
	return decoded && decoded != event && rp_expression_matches(expression, decoded, process);
}

bool rp_expression_matches(struct rp_expression *expression, const struct rp_reader_event *event,
			   uint64_t process)
{
	const struct rp_type_entry *entry = expression->last;
	bool result = false;

	if (!entry || entry->type != event->type)
		expression->last = entry = find_entry(expression, event->type);
	if (entry->verdict != RP_VERDICT_DEPENDS)
		return entry->verdict == RP_VERDICT_ALWAYS;
	if (rp_json_event_is(event->type))
		return matches_json(expression, event, process);
	for (size_t i = 0; i < expression->code_count; i++) {
		const struct rp_instruction *code = &expression->code[i];

		/* The loop increases `i`, so a jump leads to the instruction before its goal. */
		if (code->kind == RP_CODE_COMPARE)
			result = compare(expression, code->argument, entry, event, process);
		else if (code->kind == RP_CODE_NOT)
			result = !result;
		else if (result == (code->kind == RP_CODE_JUMP_IF))
			i = code->argument - 1;
	}
	return result;
}
