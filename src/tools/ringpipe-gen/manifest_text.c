/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-gen/manifest_text.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "tools/cli/identifier.h"
#include "tools/cli/tool.h"

int rp_manifest_error(const struct rp_manifest *manifest, const struct rp_xml_element *element,
		      const char *format, ...)
{
	char text[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	rp_tool_error("%s:%lu:%lu: %s", manifest->tree.path, element->line, element->column, text);
	return -EBADMSG;
}

int rp_manifest_out_of_memory(void)
{
	rp_tool_error("out of memory");
	return -ENOMEM;
}

int rp_manifest_require(const struct rp_manifest *manifest, const struct rp_xml_element *element,
			const char *name, const char **ret_value)
{
	const char *value = rp_xml_attribute(element, name);

	if (!value || !*value)
		return rp_manifest_error(manifest, element, "a %s has the attribute %s",
					 element->name, name);
	*ret_value = value;
	return 0;
}

int rp_manifest_number(const struct rp_manifest *manifest, const struct rp_xml_element *element,
		       const char *name, bool is_required, uint64_t max, uint64_t *ret_value)
{
	const char *text = rp_xml_attribute(element, name);
	bool is_hexadecimal = text && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');

	if (!text && !is_required)
		return 0;
	if (!text)
		return rp_manifest_require(manifest, element, name, &text);
	if (rp_text_number(is_hexadecimal ? text + 2 : text, is_hexadecimal ? 16 : 10, max,
			   ret_value) != 0)
		return rp_manifest_error(manifest, element, "%s=\"%s\" is a number from 0 to %llu",
					 name, text, (unsigned long long)max);
	return 0;
}

const char *rp_manifest_symbol(struct rp_manifest *manifest, const char *name)
{
	char *symbol = rp_xml_allocate(&manifest->tree, strlen(name) + RP_IDENTIFIER_EXTRA);

	if (symbol)
		rp_identifier_put(name, symbol);
	return symbol;
}

static const char *change_case(struct rp_manifest *manifest, const char *text, int (*change)(int))
{
	size_t length = strlen(text);
	char *changed = rp_xml_allocate(&manifest->tree, length + 1);

	for (size_t i = 0; changed && i < length; i++)
		changed[i] = (char)change((unsigned char)text[i]);
	return changed;
}

const char *rp_manifest_upper(struct rp_manifest *manifest, const char *text)
{
	return change_case(manifest, text, toupper);
}

const char *rp_manifest_lower(struct rp_manifest *manifest, const char *text)
{
	return change_case(manifest, text, tolower);
}

static int compare_strings(const void *a, const void *b)
{
	const struct rp_manifest_string *x = a, *y = b;

	return strcmp(x->id, y->id);
}

static const struct rp_xml_element *next_resources(const struct rp_xml_element *root,
						   const struct rp_xml_element *last)
{
	const struct rp_xml_element *localization = last ? last->parent :
						    rp_xml_find(root->children, "localization");
	const struct rp_xml_element *next = last ? rp_xml_find(last->next, "resources") : NULL;

	if (last && !next)
		localization = rp_xml_find(localization->next, "localization");
	while (localization && !next) {
		next = rp_xml_find(localization->children, "resources");
		if (!next)
			localization = rp_xml_find(localization->next, "localization");
	}
	return next;
}

static const char *culture_of(const struct rp_xml_element *resources)
{
	const char *culture = rp_xml_attribute(resources, "culture");

	return culture ? culture : "";
}

/* Return: the first resources of a culture, or NULL. */
static const struct rp_xml_element *find_resources(const struct rp_xml_element *root,
						   const char *culture)
{
	const struct rp_xml_element *each = next_resources(root, NULL);

	while (each && strcasecmp(culture_of(each), culture) != 0)
		each = next_resources(root, each);
	return each;
}

static int refuse_culture(const struct rp_manifest *manifest, const char *culture)
{
	const struct rp_xml_element *root = manifest->tree.root;
	const struct rp_xml_element *each = next_resources(root, NULL);
	char cultures[256] = "";
	size_t at = 0;

	for (; each && at < sizeof(cultures); each = next_resources(root, each))
		at += (size_t)snprintf(cultures + at, sizeof(cultures) - at, "%s\"%s\"",
				       at ? ", " : "", culture_of(each));
	return rp_manifest_error(manifest, root, "the manifest has no resources of the culture "
				 "\"%s\"; it has %s", culture, at ? cultures : "none");
}

/*
 * Choose the table of a culture, or, without one, the table in English or the first one: names in
 * generated code are in one language.
 */
static int choose_table(const struct rp_manifest *manifest, const char *culture,
			const struct rp_xml_element **ret_table)
{
	const struct rp_xml_element *root = manifest->tree.root, *each, *chosen;

	for (each = next_resources(root, NULL); each; each = next_resources(root, each)) {
		if (find_resources(root, culture_of(each)) != each)
			return rp_manifest_error(manifest, each, "the culture \"%s\" of resources "
						 "is unique", culture_of(each));
	}
	chosen = find_resources(root, culture ? culture : "en-US");
	if (!chosen && culture)
		return refuse_culture(manifest, culture);
	if (!chosen)
		chosen = next_resources(root, NULL);
	*ret_table = chosen ? rp_xml_find(chosen->children, "stringTable") : NULL;
	return 0;
}

int rp_manifest_read_strings(struct rp_manifest *manifest, const char *culture)
{
	const struct rp_xml_element *table = NULL;
	const int ret = choose_table(manifest, culture, &table);
	const struct rp_xml_element *each;
	size_t count = 0;

	if (ret < 0 || !table)
		return ret;
	for (each = table->children; each; each = each->next)
		count++;
	manifest->strings = rp_xml_allocate(&manifest->tree,
					    (count + 1) * sizeof(*manifest->strings));
	if (!manifest->strings)
		return rp_manifest_out_of_memory();
	for (each = rp_xml_find(table->children, "string"); each;
	     each = rp_xml_find(each->next, "string")) {
		struct rp_manifest_string *string = &manifest->strings[manifest->string_count++];

		string->element = each;
		string->value = rp_xml_attribute(each, "value");
		if (rp_manifest_require(manifest, each, "id", &string->id) < 0)
			return -EBADMSG;
		if (!string->value)
			return rp_manifest_error(manifest, each, "a string has a value");
	}
	qsort(manifest->strings, manifest->string_count, sizeof(*manifest->strings),
	      compare_strings);
	for (size_t i = 1; i < manifest->string_count; i++) {
		const struct rp_manifest_string *two = &manifest->strings[i - 1];

		if (!strcmp(two[0].id, two[1].id))
			return rp_manifest_error(manifest, two[1].element,
						 "the id of the string \"%s\" is unique",
						 two[1].id);
	}
	return 0;
}

int rp_manifest_message(const struct rp_manifest *manifest, const struct rp_xml_element *element,
			const char **ret_message)
{
	static const char begin[] = "$(string.";
	const char *text = rp_xml_attribute(element, "message");
	size_t length = text ? strlen(text) : 0;
	const struct rp_manifest_string *found;
	struct rp_manifest_string key;
	char id[512];

	if (!text || strncmp(text, begin, sizeof(begin) - 1) != 0 || text[length - 1] != ')') {
		*ret_message = text;
		return 0;
	}
	snprintf(id, sizeof(id), "%.*s", (int)(length - sizeof(begin)), text + sizeof(begin) - 1);
	key.id = id;
	found = manifest->string_count ?
		bsearch(&key, manifest->strings, manifest->string_count, sizeof(key),
			compare_strings) : NULL;
	if (!found)
		return rp_manifest_error(manifest, element,
					 "the message names a string of the table; \"%s\" is none",
					 id);
	*ret_message = found->value;
	return 0;
}
