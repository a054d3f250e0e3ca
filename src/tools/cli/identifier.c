/* SPDX-License-Identifier: MIT */
#include "tools/cli/identifier.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static bool is_reserved(const char *name)
{
	static const char *const words[] = {
		"alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool",
		"break", "case", "catch", "char", "char16_t", "char32_t", "char8_t", "class",
		"co_await", "co_return", "co_yield", "compl", "concept", "const", "const_cast",
		"consteval", "constexpr", "constinit", "continue", "decltype", "default", "delete",
		"do", "double", "dynamic_cast", "else", "enum", "errno", "explicit", "export",
		"extern", "false", "float", "for", "friend", "goto", "if", "inline", "int", "linux",
		"long", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr",
		"operator", "or", "or_eq", "private", "protected", "public", "register",
		"reinterpret_cast", "requires", "restrict", "return", "short", "signed", "sizeof",
		"static", "static_assert", "static_cast", "struct", "switch", "template", "this",
		"thread_local", "throw", "true", "try", "typedef", "typeid", "typename", "union",
		"unix", "unsigned", "using", "virtual", "void", "volatile", "wchar_t", "while",
		"xor", "xor_eq", "NULL", "EOF",
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (!strcmp(name, words[i]))
			return true;
	}
	return false;
}

void rp_identifier_put(const char *name, char *identifier)
{
	char *at = identifier;

	if (isdigit((unsigned char)*name) || !*name)
		*at++ = '_';
	for (; *name; name++)
		*at++ = isalnum((unsigned char)*name) ? *name : '_';
	*at = '\0';
	if (is_reserved(identifier))
		strcpy(at, "_");
}

char *rp_identifier_make(const char *name)
{
	char *identifier = malloc(strlen(name) + RP_IDENTIFIER_EXTRA);

	if (identifier)
		rp_identifier_put(name, identifier);
	return identifier;
}
