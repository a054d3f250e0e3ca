/* SPDX-License-Identifier: MIT */
/* Keywords, levels, tasks, opcodes and maps: names for numbers. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <ringpipe/types.h>

#include "tools/ringpipe-gen/manifest_text.h"

/* The attribute that contains the number of each kind of row. */
static const char *number_of(const char *row)
{
	return !strcmp(row, "keyword") ? "mask" : "value";
}

static int read_name(struct rp_manifest *manifest, const struct rp_xml_element *element,
		     struct rp_manifest_name *name)
{
	const char *message;		/* of no use, but it must be right */

	if (rp_manifest_require(manifest, element, "name", &name->name) < 0 ||
	    rp_manifest_number(manifest, element, number_of(element->name), true,
			       !strcmp(element->name, "keyword") ? UINT64_MAX : UINT16_MAX,
			       &name->value) < 0 ||
	    rp_manifest_message(manifest, element, &message) < 0)
		return -EBADMSG;
	name->symbol = rp_manifest_symbol(manifest, name->name);
	return name->symbol ? 0 : rp_manifest_out_of_memory();
}

/* Names and numbers are unique, except that opcodes of two tasks may be equal. */
static int check_unique(struct rp_manifest *manifest, const struct rp_xml_element *element,
			const struct rp_manifest_name *names, const struct rp_manifest_name *name)
{
	for (; names; names = names->next) {
		if (names->task != name->task)
			continue;
		if (!strcmp(names->symbol, name->symbol))
			return rp_manifest_error(manifest, element, "the name of the %s \"%s\" is "
						 "unique", element->name, name->name);
		if (names->value == name->value)
			return rp_manifest_error(manifest, element, "the %s of the %s \"%s\" is "
						 "unique; \"%s\" has the same",
						 number_of(element->name), element->name,
						 name->name, names->name);
	}
	return 0;
}

int rp_manifest_read_names(struct rp_manifest *manifest,
			   const struct rp_manifest_provider *provider,
			   const struct rp_xml_element *section, const char *row,
			   struct rp_manifest_name **ret_names)
{
	const bool is_task = !strcmp(section->name, "opcodes") &&
			     !strcmp(section->parent->name, "task");
	const char *task = is_task ? rp_xml_attribute(section->parent, "name") : NULL;
	struct rp_manifest_name **end = ret_names;
	const struct rp_xml_element *each;

	while (*end)
		end = &(*end)->next;
	for (each = rp_xml_find(section->children, row); each;
	     each = rp_xml_find(each->next, row)) {
		struct rp_manifest_name *name = rp_xml_allocate(&manifest->tree, sizeof(*name));
		int ret = name ? read_name(manifest, each, name) : rp_manifest_out_of_memory();

		if (ret < 0)
			return ret;
		for (name->task = task ? provider->tasks : NULL;
		     name->task && strcmp(name->task->name, task) != 0; )
			name->task = name->task->next;
		ret = check_unique(manifest, each, *ret_names, name);
		if (ret < 0)
			return ret;
		if (!strcmp(row, "keyword") && !name->value)
			return rp_manifest_error(manifest, each, "the mask of a keyword has a bit");
		*end = name;
		end = &name->next;
	}
	return 0;
}

/* The name of a value is its message: the manifest has no other. */
static int read_value(struct rp_manifest *manifest, const struct rp_xml_element *element,
		      struct rp_manifest_name *value)
{
	if (rp_manifest_number(manifest, element, "value", true, UINT32_MAX, &value->value) < 0 ||
	    rp_manifest_message(manifest, element, &value->name) < 0)
		return -EBADMSG;
	if (!value->name)
		return rp_manifest_error(manifest, element, "a value of a map has a message");
	value->symbol = rp_manifest_symbol(manifest, value->name);
	return value->symbol ? 0 : rp_manifest_out_of_memory();
}

static bool has_symbol(const struct rp_manifest_name *values, const char *symbol)
{
	while (values && strcmp(values->symbol, symbol) != 0)
		values = values->next;
	return values;
}

/* Messages may be equal as identifiers: then the value follows the name. */
static int make_unique(struct rp_manifest *manifest, const struct rp_xml_element *element,
		       const struct rp_manifest_name *values, struct rp_manifest_name *value)
{
	char text[RP_NAME_MAX + 1];

	if (!has_symbol(values, value->symbol))
		return 0;
	snprintf(text, sizeof(text), "%.200s_%llx", value->symbol,
		 (unsigned long long)value->value);
	value->symbol = rp_manifest_symbol(manifest, text);
	if (!value->symbol)
		return rp_manifest_out_of_memory();
	if (has_symbol(values, value->symbol))
		return rp_manifest_error(manifest, element,
					 "the messages of a map are unique as identifiers");
	return 0;
}

static int read_values(struct rp_manifest *manifest, const struct rp_xml_element *element,
		       struct rp_manifest_map *map)
{
	struct rp_manifest_name **end = &map->values;
	const struct rp_xml_element *each;

	for (each = rp_xml_find(element->children, "map"); each;
	     each = rp_xml_find(each->next, "map")) {
		struct rp_manifest_name *value = rp_xml_allocate(&manifest->tree, sizeof(*value));
		int ret = value ? read_value(manifest, each, value) : rp_manifest_out_of_memory();

		if (ret < 0)
			return ret;
		for (const struct rp_manifest_name *other = map->values; other;
		     other = other->next) {
			if (other->value == value->value)
				return rp_manifest_error(manifest, each,
							 "the value %#llx of the map \"%s\" is "
							 "unique", (unsigned long long)value->value,
							 map->name);
		}
		ret = make_unique(manifest, each, map->values, value);
		if (ret < 0)
			return ret;
		*end = value;
		end = &value->next;
	}
	if (!map->values)
		return rp_manifest_error(manifest, element, "a map has at least one value");
	return 0;
}

int rp_manifest_read_maps(struct rp_manifest *manifest, struct rp_manifest_provider *provider,
			  const struct rp_xml_element *section)
{
	struct rp_manifest_map **end = &provider->maps;
	const struct rp_xml_element *each;

	for (each = section->children; each; each = each->next) {
		struct rp_manifest_map *map;
		int ret;

		if (strcmp(each->name, "valueMap") != 0 && strcmp(each->name, "bitMap") != 0)
			continue;
		map = rp_xml_allocate(&manifest->tree, sizeof(*map));
		if (!map)
			return rp_manifest_out_of_memory();
		map->is_bitmap = !strcmp(each->name, "bitMap");
		ret = rp_manifest_require(manifest, each, "name", &map->name);
		if (ret == 0)
			ret = read_values(manifest, each, map);
		if (ret < 0)
			return ret;
		map->symbol = rp_manifest_symbol(manifest, map->name);
		if (!map->symbol)
			return rp_manifest_out_of_memory();
		for (const struct rp_manifest_map *other = provider->maps; other;
		     other = other->next) {
			if (!strcmp(other->symbol, map->symbol))
				return rp_manifest_error(manifest, each,
							 "the name of the map \"%s\" is unique",
							 map->name);
		}
		*end = map;
		end = &map->next;
	}
	return 0;
}
