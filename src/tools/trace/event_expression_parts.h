/* SPDX-License-Identifier: MIT */
/* The program of an expression, for the files that make it and run it. */
#ifndef RP_TOOL_EXPRESSION_PARTS_H
#define RP_TOOL_EXPRESSION_PARTS_H

#include <regex.h>

#include "tools/trace/event_expression.h"

enum rp_expression_name {
	RP_NAME_FIELD,
	RP_NAME_PROVIDER, RP_NAME_EVENT, RP_NAME_ID, RP_NAME_LEVEL, RP_NAME_KEYWORDS,
	RP_NAME_OPCODE, RP_NAME_VERSION, RP_NAME_TIME, RP_NAME_PROCESS, RP_NAME_THREAD,
	RP_NAME_PROCESSOR, RP_NAME_THREAD_NAME, RP_NAME_ACTIVITY, RP_NAME_RELATED_ACTIVITY,
	RP_NAME_TRACE_ID, RP_NAME_SPAN_ID,
};

enum rp_expression_operator {
	RP_OPERATOR_HAS,
	RP_OPERATOR_EQUAL, RP_OPERATOR_NOT_EQUAL, RP_OPERATOR_LESS, RP_OPERATOR_AT_MOST,
	RP_OPERATOR_MORE, RP_OPERATOR_AT_LEAST, RP_OPERATOR_REGEX,
};

enum rp_operand_kind {
	RP_OPERAND_NONE,		/* the event lacks it, or nothing compares with its type */
	RP_OPERAND_OTHER,		/* it exists, but is equal to nothing */
	RP_OPERAND_INTEGER, RP_OPERAND_REAL, RP_OPERAND_BOOL, RP_OPERAND_TEXT,
	RP_OPERAND_ID,			/* text without regard to case */
	RP_OPERAND_UTF16,		/* text to be compared with `units` of the comparison */
};

struct rp_operand {
	enum rp_operand_kind kind;
	union {
		__int128 integer;	/* all of an int64_t and of a uint64_t */
		double real;
		bool truth;
		struct {
			const char *text;	/* its first bytes at least, see `scratch` */
			size_t bytes;	/* of the whole text */
		};
	};
};

struct rp_comparison {
	enum rp_expression_name name;
	enum rp_expression_operator operator;
	char *field;			/* RP_NAME_FIELD: its name; members follow dots */
	struct rp_operand value;
	char *text;			/* of `value`, or the regular expression; or NULL */
	uint8_t *units;			/* `text` in UTF-16, if == and != can compare it; or NULL */
	size_t units_bytes;
	regex_t regex;
	bool has_regex;
};

/*
 * The result of the last comparison is the only state. Jumps lead forward, so a program ends after
 * at most as many steps as it has instructions.
 */
enum rp_instruction_kind { RP_CODE_COMPARE, RP_CODE_NOT, RP_CODE_JUMP_IF, RP_CODE_JUMP_IF_NOT };

struct rp_instruction {
	enum rp_instruction_kind kind;
	uint32_t argument;		/* index of the comparison, or of the next instruction */
};

/* A comparison, as far as the type of an event decides it. */
struct rp_type_comparison {
	enum { RP_KNOWN_FALSE, RP_KNOWN_TRUE, RP_KNOWN_PER_EVENT } result;
	uint32_t fields_before;		/* fields of a fixed size, before the field or its struct */
	uint32_t bytes_before;		/* their bytes */
	uint32_t fields_between;	/* further fields, whose sizes differ by event */
	uint32_t member_at;		/* offset of the member in the name, if `is_member` */
	bool is_member;			/* the name leads to a member of a struct */
	uint8_t direct;			/* enum rp_type of a number at `bytes_before`, or NONE */
	uint8_t direct_bytes;
};

enum rp_type_verdict { RP_VERDICT_NEVER, RP_VERDICT_ALWAYS, RP_VERDICT_DEPENDS };

struct rp_type_entry {
	const struct rp_reader_type *type;	/* NULL: unused */
	enum rp_type_verdict verdict;
	struct rp_type_comparison *comparisons;	/* in the order of the program's */
};

/* Sets of entries, each for the types with one hash. */
#define RP_TYPE_SETS 64u
#define RP_TYPE_WAYS 4u

struct rp_expression {
	struct rp_comparison *comparisons;
	size_t comparison_count, comparison_capacity;
	struct rp_instruction *code;
	size_t code_count, code_capacity;
	uint8_t (*outcomes)[2];		/* for the verdict: code_count + 1 rows */
	struct rp_type_comparison *type_comparisons;	/* of all entries */
	struct rp_type_entry types[RP_TYPE_SETS * RP_TYPE_WAYS];
	const struct rp_type_entry *last;	/* of the previous event; or NULL */
	uint8_t next_way[RP_TYPE_SETS];	/* the entry of the set to replace next */
	/*
	 * The text of an operand that is not in the event as UTF-8. Longer texts are cut, but never
	 * below the length of the longest text that they are compared with.
	 */
	char *scratch;
	size_t scratch_bytes;
	struct rp_json_decoder *json;	/* NULL: there was no JSON event yet */
};

/* Parse the text into the empty expression. Return: as rp_expression_compile(). */
int rp_expression_parse(const char *text, struct rp_expression *expression,
			struct rp_expression_error *ret_error);

/* Decide what a comparison's result is for all events of a type, if their type decides it. */
void rp_expression_learn(struct rp_expression *expression, const struct rp_reader_type *type,
			 const struct rp_comparison *comparison,
			 struct rp_type_comparison *ret_of_type);

/*
 * Decode a JSON event for the expression; see json_event.h.
 * Return: as rp_json_decode(); NULL without memory.
 */
const struct rp_reader_event *rp_expression_decode_json(struct rp_expression *expression,
							const struct rp_reader_event *event);

/* Free what the decoding of JSON events has allocated. */
void rp_expression_forget_json(struct rp_expression *expression);

/* Decide what results the whole expression can have, from those of its comparisons. */
enum rp_type_verdict rp_expression_decide(struct rp_expression *expression,
					  const struct rp_type_comparison *comparisons);

/* Compare an operand of an event with the comparison's value. */
bool rp_operand_compare(const struct rp_operand *left, const struct rp_comparison *comparison);

/* Return: NULL; or why the regular expression is refused: it may need too much memory or time. */
const char *rp_regex_find_fault(const char *pattern);

/* Return: whether the text is a GUID in the form 8-4-4-4-12. */
bool rp_text_is_guid(const char *text);

#endif
