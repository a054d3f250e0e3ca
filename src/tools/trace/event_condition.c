/* SPDX-License-Identifier: MIT */
#include "tools/trace/event_condition.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ringpipe/field.h>

#define TEXT_MAX 1024

/* Cut the text at the comparison. Return: what follows it; NULL: there is none. */
static char *cut_comparison(char *text, enum rp_comparison *ret_comparison)
{
	static const struct {
		const char *sign;
		enum rp_comparison comparison;
	} signs[] = {
		{ "!=", RP_COMPARISON_NOT_EQUAL }, { "<=", RP_COMPARISON_AT_MOST },
		{ ">=", RP_COMPARISON_AT_LEAST }, { "==", RP_COMPARISON_EQUAL },
		{ "=", RP_COMPARISON_EQUAL }, { "<", RP_COMPARISON_LESS },
		{ ">", RP_COMPARISON_MORE },
	};
	char *at = text + strcspn(text, "!<>=");

	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
		const size_t length = strlen(signs[i].sign);

		if (!strncmp(at, signs[i].sign, length)) {
			*at = '\0';
			*ret_comparison = signs[i].comparison;
			return at + length;
		}
	}
	return NULL;
}

/* Cut the text at the next colon. Return: what follows; NULL: there is none. */
static char *cut_colon(char *text)
{
	char *colon = strchr(text, ':');

	if (colon)
		*colon++ = '\0';
	return colon;
}

static void parse_number(struct rp_event_condition *condition)
{
	char *end;

	condition->number = strtod(condition->value, &end);
	condition->is_number = *condition->value && !*end;
	errno = 0;
	condition->exact = strtoll(condition->value, &end, 0);
	condition->is_exact = condition->is_number && !*end && errno == 0;
}

int rp_event_condition_parse(const char *text, struct rp_event_condition *ret_condition)
{
	struct rp_event_condition condition = { .provider = strdup(text), .value = "" };
	char *field;

	if (!condition.provider)
		return -ENOMEM;
	condition.event = cut_colon(condition.provider);
	field = condition.event ? cut_colon(condition.event) : NULL;
	condition.field = field ? field : condition.provider + strlen(condition.provider);
	if (field)
		condition.value = cut_comparison(field, &condition.comparison);
	if (!condition.event || !*condition.provider || !*condition.event ||
	    (field && (!condition.value || !*field))) {
		free(condition.provider);
		return -EINVAL;
	}
	parse_number(&condition);
	if (!condition.is_number && condition.comparison > RP_COMPARISON_NOT_EQUAL) {
		free(condition.provider);
		return -EINVAL;
	}
	*ret_condition = condition;
	return 0;
}

void rp_event_condition_fini(struct rp_event_condition *condition)
{
	free(condition->provider);
	condition->provider = NULL;
}

static bool holds(enum rp_comparison comparison, int order)
{
	switch (comparison) {
	case RP_COMPARISON_NONE:
		return true;
	case RP_COMPARISON_EQUAL:
		return order == 0;
	case RP_COMPARISON_NOT_EQUAL:
		return order != 0;
	case RP_COMPARISON_LESS:
		return order < 0;
	case RP_COMPARISON_AT_MOST:
		return order <= 0;
	case RP_COMPARISON_MORE:
		return order > 0;
	case RP_COMPARISON_AT_LEAST:
		return order >= 0;
	}
	return false;
}

/* An integer above 2^53 is not compared as a floating-point number, which cannot represent it. */
static bool compare_number(const struct rp_event_condition *condition, bool is_signed,
			   const struct rp_value *value)
{
	double number;

	if (condition->is_exact && !is_signed && value->u64 > INT64_MAX)
		return holds(condition->comparison, 1);
	if (condition->is_exact)
		return holds(condition->comparison, (value->i64 > condition->exact) -
						    (value->i64 < condition->exact));
	number = is_signed ? (double)value->i64 : (double)value->u64;
	return holds(condition->comparison,
		     (number > condition->number) - (number < condition->number));
}

static bool compare(const struct rp_event_condition *condition, const struct rp_value *value)
{
	char text[TEXT_MAX];

	switch (value->type) {
	case RP_TYPE_STRING:
	case RP_TYPE_STRING16:
		return rp_value_get_text(value, text, sizeof(text)) < sizeof(text) &&
		       condition->comparison <= RP_COMPARISON_NOT_EQUAL &&
		       holds(condition->comparison, strcmp(text, condition->value));
	case RP_TYPE_F32:
	case RP_TYPE_F64:
		return condition->is_number &&
		       holds(condition->comparison, (value->f64 > condition->number) -
						    (value->f64 < condition->number));
	case RP_TYPE_I8:
	case RP_TYPE_I16:
	case RP_TYPE_I32:
	case RP_TYPE_I64:
		return condition->is_number && compare_number(condition, true, value);
	case RP_TYPE_BOOL:
	case RP_TYPE_U8:
	case RP_TYPE_U16:
	case RP_TYPE_U32:
	case RP_TYPE_U64:
	case RP_TYPE_POINTER:
		return condition->is_number && compare_number(condition, false, value);
	}
	return false;
}

bool rp_event_condition_matches(const struct rp_event_condition *condition,
				const struct rp_reader_event *event)
{
	struct rp_value value = RP_VALUE_INIT;
	struct rp_fields fields;

	if (strcmp(event->type->provider, condition->provider) != 0 ||
	    strcmp(event->type->name, condition->event) != 0)
		return false;
	if (condition->comparison == RP_COMPARISON_NONE)
		return true;
	rp_reader_get_fields(event, &fields);
	return rp_fields_find(&fields, condition->field, &value) == 0 &&
	       compare(condition, &value);
}
