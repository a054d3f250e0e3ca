/* SPDX-License-Identifier: MIT */
/*
 * Compiles an expression to its program, by recursive descent:
 *
 *	either     = both { "or" both }
 *	both       = one { "and" one }
 *	one        = "not" one | "(" either ")" | "has" NAME | NAME operator value
 *
 * `and` and `or` jump over an operand that cannot change the result.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/array.h"
#include "base/utf.h"
#include "tools/trace/event_expression_tokens.h"

/* The values that a built-in name compares with. */
enum name_type { IS_NUMBER, IS_TEXT, IS_GUID, IS_TRACE_ID, IS_SPAN_ID };

static const struct name_row {
	const char *text;
	enum rp_expression_name name;
	enum name_type type;
} names[] = {
	{ "provider", RP_NAME_PROVIDER, IS_TEXT }, { "event", RP_NAME_EVENT, IS_TEXT },
	{ "id", RP_NAME_ID, IS_NUMBER }, { "level", RP_NAME_LEVEL, IS_NUMBER },
	{ "keywords", RP_NAME_KEYWORDS, IS_NUMBER }, { "opcode", RP_NAME_OPCODE, IS_NUMBER },
	{ "version", RP_NAME_VERSION, IS_NUMBER }, { "time", RP_NAME_TIME, IS_NUMBER },
	{ "process", RP_NAME_PROCESS, IS_NUMBER }, { "thread", RP_NAME_THREAD, IS_NUMBER },
	{ "processor", RP_NAME_PROCESSOR, IS_NUMBER },
	{ "thread_name", RP_NAME_THREAD_NAME, IS_TEXT },
	{ "activity", RP_NAME_ACTIVITY, IS_GUID },
	{ "related_activity", RP_NAME_RELATED_ACTIVITY, IS_GUID },
	{ "trace_id", RP_NAME_TRACE_ID, IS_TRACE_ID },
	{ "span_id", RP_NAME_SPAN_ID, IS_SPAN_ID },
};

static const struct {
	const char *text;
	int level;
} levels[] = {
	{ "always", 0 }, { "critical", 1 }, { "error", 2 }, { "warning", 3 },
	{ "informational", 4 }, { "info", 4 }, { "verbose", 5 },
};

struct parser {
	const char *text;
	struct rp_expression *expression;
	struct rp_expression_error *error;
	struct rp_token token;		/* the next one */
	unsigned int depth;
};

static int advance(struct parser *parser)
{
	return rp_token_read(parser->text, parser->token.at + parser->token.bytes, &parser->token,
			     parser->error);
}

static bool is_word(const struct parser *parser, const char *word)
{
	return parser->token.kind == RP_TOKEN_NAME && !parser->token.is_quoted &&
	       !strcmp(parser->token.word, word);
}

/* Report that the next word should be something else. */
static int fail_here(struct parser *parser, const char *expected)
{
	return rp_expression_fail(parser->error, parser->token.at, "expected %s%s", expected,
				  parser->token.kind == RP_TOKEN_END ?
				  ", but the expression ends" : "");
}

static int emit(struct parser *parser, enum rp_instruction_kind kind, size_t argument)
{
	struct rp_expression *expression = parser->expression;
	struct rp_instruction *code = rp_array_reserve(expression->code, expression->code_count,
						       &expression->code_capacity, 1,
						       sizeof(*code));

	if (!code)
		return -ENOMEM;
	expression->code = code;
	code[expression->code_count++] = (struct rp_instruction){ kind, (uint32_t)argument };
	return 0;
}

static int add_comparison(struct parser *parser, struct rp_comparison **ret_comparison)
{
	struct rp_expression *expression = parser->expression;
	struct rp_comparison *rows;

	if (expression->comparison_count == RP_EXPRESSION_COMPARISONS_MAX)
		return rp_expression_fail(parser->error, parser->token.at, "an expression has up "
					  "to %u comparisons", RP_EXPRESSION_COMPARISONS_MAX);
	rows = rp_array_reserve(expression->comparisons, expression->comparison_count,
				&expression->comparison_capacity, 1, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	expression->comparisons = rows;
	*ret_comparison = &rows[expression->comparison_count];
	memset(*ret_comparison, 0, sizeof(**ret_comparison));
	return emit(parser, RP_CODE_COMPARE, expression->comparison_count++);
}

/* Take a name of the event or of a field. `ret_row`: the name of the event; NULL: a field. */
static int take_name(struct parser *parser, struct rp_comparison *comparison,
		     const struct name_row **ret_row)
{
	static const char prefix[] = "field.";
	const char *word = parser->token.word;
	const bool has_prefix = !strncmp(word, prefix, sizeof(prefix) - 1);

	*ret_row = NULL;
	for (size_t i = 0; !parser->token.is_quoted && i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(names[i].text, word))
			*ret_row = &names[i];
	}
	if (*ret_row) {
		comparison->name = (*ret_row)->name;
		return advance(parser);
	}
	if (has_prefix && !parser->token.is_quoted)
		word += sizeof(prefix) - 1;
	if (!*word || (!parser->token.is_quoted && word[strlen(word) - 1] == '.'))
		return rp_expression_fail(parser->error, parser->token.at,
					  "the name of the field is incomplete");
	comparison->field = strdup(word);
	return comparison->field ? advance(parser) : -ENOMEM;
}

/* The value that a word without quotes means, as a level's name. Return: 0; -EINVAL. */
static int take_word(struct parser *parser, const struct name_row *row, struct rp_operand *value)
{
	const char *word = parser->token.word;
	const bool is_level = row && row->name == RP_NAME_LEVEL;

	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
		if (is_level && !strcmp(levels[i].text, word)) {
			*value = (struct rp_operand){ .kind = RP_OPERAND_INTEGER,
						      .integer = levels[i].level };
			return 0;
		}
	}
	if (!strcmp(word, "true") || !strcmp(word, "false")) {
		*value = (struct rp_operand){ .kind = RP_OPERAND_BOOL, .truth = *word == 't' };
		return 0;
	}
	if (is_level)
		return rp_expression_fail(parser->error, parser->token.at, "the levels are "
					  "critical, error, warning, informational and verbose");
	return rp_expression_fail(parser->error, parser->token.at,
				  "expected a number, true, false, or a text in quotes");
}

static int take_regex(struct parser *parser, struct rp_comparison *comparison)
{
	const char *fault;
	char message[100];
	int ret;

	if (parser->token.kind != RP_TOKEN_TEXT)
		return fail_here(parser, "a regular expression in quotes");
	fault = rp_regex_find_fault(parser->token.word);
	if (fault)
		return rp_expression_fail(parser->error, parser->token.at, "%s", fault);
	ret = regcomp(&comparison->regex, parser->token.word, REG_EXTENDED | REG_NOSUB);
	if (ret == REG_ESPACE)
		return -ENOMEM;
	if (ret) {
		regerror(ret, &comparison->regex, message, sizeof(message));
		return rp_expression_fail(parser->error, parser->token.at,
					  "not a regular expression: %s", message);
	}
	comparison->has_regex = true;
	return advance(parser);
}

static bool is_hex(const char *text, size_t digits)
{
	return strspn(text, "0123456789abcdefABCDEF") == digits && !text[digits];
}

/* Check that the value can be that of a name of the event. */
static int check_value(struct parser *parser, const struct name_row *row,
		       enum rp_expression_operator operator, const struct rp_operand *value)
{
	const char *word = parser->token.word;
	const size_t at = parser->token.at;
	const bool is_text = value->kind == RP_OPERAND_TEXT;

	if (row->type == IS_NUMBER && value->kind != RP_OPERAND_INTEGER &&
	    value->kind != RP_OPERAND_REAL)
		return rp_expression_fail(parser->error, at, "'%s' is a number", row->text);
	if (row->name == RP_NAME_TIME && !parser->token.has_unit)
		return rp_expression_fail(parser->error, at,
					  "a time has a unit, as in 1.5s or 20ms");
	if (row->type != IS_NUMBER && !is_text)
		return rp_expression_fail(parser->error, at, "'%s' is a text, in quotes",
					  row->text);
	if (row->type >= IS_GUID && operator > RP_OPERATOR_NOT_EQUAL)
		return rp_expression_fail(parser->error, at, "'%s' compares by ==, != and ~ only",
					  row->text);
	if (row->type == IS_GUID && !rp_text_is_guid(word))
		return rp_expression_fail(parser->error, at, "'%s' has the form "
					  "\"00112233-4455-6677-8899-aabbccddeeff\"", row->text);
	if (row->type == IS_TRACE_ID && !is_hex(word, 32))
		return rp_expression_fail(parser->error, at, "'%s' has 32 hexadecimal digits",
					  row->text);
	if (row->type == IS_SPAN_ID && !is_hex(word, 16))
		return rp_expression_fail(parser->error, at, "'%s' has 16 hexadecimal digits",
					  row->text);
	return 0;
}

/*
 * Most texts of fields are in UTF-16, and are equal to the value if the units are. A text that is
 * not valid becomes U+FFFD, so only a value without this character has one form.
 */
static int make_units(struct rp_comparison *comparison)
{
	const uint8_t *text = (const uint8_t *)comparison->text;
	const size_t bytes = comparison->value.bytes;

	if (!rp_utf8_is_valid(text, bytes) || strstr(comparison->text, "\xef\xbf\xbd"))
		return 0;
	comparison->units_bytes = 2 * rp_utf16_count(text, bytes);
	comparison->units = malloc(comparison->units_bytes + 2);
	if (!comparison->units)
		return -ENOMEM;
	rp_utf16_from_utf8(text, bytes, comparison->units, comparison->units_bytes / 2);
	return 0;
}

static int take_value(struct parser *parser, struct rp_comparison *comparison,
		      const struct name_row *row)
{
	struct rp_operand value = parser->token.value;
	int ret = 0;

	if (parser->token.kind == RP_TOKEN_NAME && !parser->token.is_quoted)
		ret = take_word(parser, row, &value);
	else if (parser->token.kind != RP_TOKEN_TEXT && parser->token.kind != RP_TOKEN_NUMBER)
		ret = fail_here(parser, "a number, true, false, or a text in quotes");
	if (!ret && row)
		ret = check_value(parser, row, comparison->operator, &value);
	if (!ret && value.kind == RP_OPERAND_BOOL && comparison->operator > RP_OPERATOR_NOT_EQUAL)
		ret = rp_expression_fail(parser->error, parser->token.at,
					 "true and false compare by == and != only");
	if (ret)
		return ret;
	if (value.kind == RP_OPERAND_TEXT) {
		comparison->text = strdup(parser->token.word);
		if (!comparison->text)
			return -ENOMEM;
		value.text = comparison->text;
	}
	comparison->value = value;
	if (value.kind == RP_OPERAND_TEXT && !row && comparison->operator <= RP_OPERATOR_NOT_EQUAL)
		ret = make_units(comparison);
	return ret ? ret : advance(parser);
}

static int parse_has(struct parser *parser)
{
	const struct name_row *row;
	struct rp_comparison *comparison;
	int ret = advance(parser);

	if (ret)
		return ret;
	if (parser->token.kind != RP_TOKEN_NAME)
		return fail_here(parser, "the name of a field");
	ret = add_comparison(parser, &comparison);
	if (ret)
		return ret;
	comparison->operator = RP_OPERATOR_HAS;
	return take_name(parser, comparison, &row);
}

static int parse_comparison(struct parser *parser)
{
	const struct name_row *row;
	struct rp_comparison *comparison;
	int ret;

	if (parser->token.kind != RP_TOKEN_NAME || is_word(parser, "and") || is_word(parser, "or"))
		return fail_here(parser, "a name, 'not', 'has' or '('");
	ret = add_comparison(parser, &comparison);
	if (!ret)
		ret = take_name(parser, comparison, &row);
	if (ret)
		return ret;
	if (parser->token.kind != RP_TOKEN_OPERATOR)
		return fail_here(parser, "one of == != < <= > >= ~");
	comparison->operator = parser->token.operator;
	if (comparison->operator == RP_OPERATOR_REGEX && row && row->type == IS_NUMBER)
		return rp_expression_fail(parser->error, parser->token.at,
					  "'%s' is a number, and ~ searches texts", row->text);
	ret = advance(parser);
	if (ret)
		return ret;
	return comparison->operator == RP_OPERATOR_REGEX ? take_regex(parser, comparison) :
	       take_value(parser, comparison, row);
}

static int parse_either(struct parser *parser);

static int parse_group(struct parser *parser)
{
	int ret = advance(parser);

	if (!ret)
		ret = parse_either(parser);
	if (ret)
		return ret;
	if (parser->token.kind != RP_TOKEN_CLOSE)
		return fail_here(parser, "'and', 'or' or ')'");
	return advance(parser);
}

static int parse_one(struct parser *parser)
{
	bool is_negated = false;
	int ret = 0;

	for (; !ret && is_word(parser, "not"); ret = advance(parser))
		is_negated = !is_negated;
	if (ret)
		return ret;
	if (parser->token.kind != RP_TOKEN_OPEN) {
		ret = is_word(parser, "has") ? parse_has(parser) : parse_comparison(parser);
	} else if (parser->depth == RP_EXPRESSION_DEPTH_MAX) {
		ret = rp_expression_fail(parser->error, parser->token.at,
					 "parentheses nest up to %u deep", RP_EXPRESSION_DEPTH_MAX);
	} else {
		parser->depth++;
		ret = parse_group(parser);
		parser->depth--;
	}
	return ret || !is_negated ? ret : emit(parser, RP_CODE_NOT, 0);
}

/* Parse parts with the word between them; a part with the result of `jump` decides. */
static int parse_chain(struct parser *parser, const char *word, enum rp_instruction_kind jump,
		       int (*parse_part)(struct parser *parser))
{
	struct rp_expression *expression = parser->expression;
	size_t last = SIZE_MAX;		/* the jumps, linked by their arguments */
	int ret = parse_part(parser);

	while (!ret && is_word(parser, word)) {
		ret = emit(parser, jump, last);
		last = expression->code_count - 1;
		if (!ret)
			ret = advance(parser);
		if (!ret)
			ret = parse_part(parser);
	}
	while (!ret && last != SIZE_MAX) {
		const uint32_t before = expression->code[last].argument;

		expression->code[last].argument = (uint32_t)expression->code_count;
		last = before == UINT32_MAX ? SIZE_MAX : before;
	}
	return ret;
}

static int parse_both(struct parser *parser)
{
	return parse_chain(parser, "and", RP_CODE_JUMP_IF_NOT, parse_one);
}

static int parse_either(struct parser *parser)
{
	return parse_chain(parser, "or", RP_CODE_JUMP_IF, parse_both);
}

int rp_expression_parse(const char *text, struct rp_expression *expression,
			struct rp_expression_error *ret_error)
{
	struct parser *parser;
	int ret;

	if (strnlen(text, RP_EXPRESSION_BYTES_MAX + 1) > RP_EXPRESSION_BYTES_MAX)
		return rp_expression_fail(ret_error, RP_EXPRESSION_BYTES_MAX,
					  "an expression has up to %u bytes",
					  RP_EXPRESSION_BYTES_MAX);
	parser = calloc(1, sizeof(*parser));
	if (!parser)
		return -ENOMEM;
	parser->text = text;
	parser->expression = expression;
	parser->error = ret_error;
	ret = advance(parser);
	if (!ret)
		ret = parse_either(parser);
	if (!ret && parser->token.kind != RP_TOKEN_END)
		ret = fail_here(parser, "'and', 'or' or the end");
	free(parser);
	return ret;
}
