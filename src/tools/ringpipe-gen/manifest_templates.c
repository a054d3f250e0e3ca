/* SPDX-License-Identifier: MIT */
/* Templates: the fields of events. */
#include <errno.h>
#include <string.h>

#include "tools/ringpipe-gen/manifest_text.h"

static const struct {
	const char *name;
	enum rp_manifest_type type;
} in_types[] = {
	{ "win:UnicodeString", RP_MANIFEST_UNICODE_STRING },
	{ "win:AnsiString", RP_MANIFEST_ANSI_STRING },
	{ "win:Int8", RP_MANIFEST_INT8 },
	{ "win:UInt8", RP_MANIFEST_UINT8 },
	{ "win:Int16", RP_MANIFEST_INT16 },
	{ "win:UInt16", RP_MANIFEST_UINT16 },
	{ "win:Int32", RP_MANIFEST_INT32 },
	{ "win:UInt32", RP_MANIFEST_UINT32 },
	{ "win:HexInt32", RP_MANIFEST_UINT32 },
	{ "win:Int64", RP_MANIFEST_INT64 },
	{ "win:UInt64", RP_MANIFEST_UINT64 },
	{ "win:HexInt64", RP_MANIFEST_UINT64 },
	{ "win:SizeT", RP_MANIFEST_UINT64 },
	{ "win:Float", RP_MANIFEST_FLOAT },
	{ "win:Double", RP_MANIFEST_DOUBLE },
	{ "win:Boolean", RP_MANIFEST_BOOLEAN },
	{ "win:Binary", RP_MANIFEST_BINARY },
	{ "win:GUID", RP_MANIFEST_GUID },
	{ "win:Pointer", RP_MANIFEST_POINTER },
	{ "win:FILETIME", RP_MANIFEST_FILETIME },
	{ "win:SYSTEMTIME", RP_MANIFEST_SYSTEMTIME },
	{ "win:SID", RP_MANIFEST_SID },
	{ "win:CountedUnicodeString", RP_MANIFEST_COUNTED_UNICODE_STRING },
	{ "win:CountedAnsiString", RP_MANIFEST_COUNTED_ANSI_STRING },
	{ "win:CountedBinary", RP_MANIFEST_COUNTED_BINARY },
};

size_t rp_manifest_type_bytes(enum rp_manifest_type type)
{
	static const uint8_t bytes[RP_MANIFEST_STRUCT + 1] = {
		[RP_MANIFEST_INT8] = 1, [RP_MANIFEST_UINT8] = 1, [RP_MANIFEST_INT16] = 2,
		[RP_MANIFEST_UINT16] = 2, [RP_MANIFEST_INT32] = 4, [RP_MANIFEST_UINT32] = 4,
		[RP_MANIFEST_INT64] = 8, [RP_MANIFEST_UINT64] = 8, [RP_MANIFEST_FLOAT] = 4,
		[RP_MANIFEST_DOUBLE] = 8, [RP_MANIFEST_BOOLEAN] = 4, [RP_MANIFEST_GUID] = 16,
		[RP_MANIFEST_POINTER] = 8, [RP_MANIFEST_FILETIME] = 8,
		[RP_MANIFEST_SYSTEMTIME] = 16,
	};

	return bytes[type];
}

static bool is_unsigned(enum rp_manifest_type type)
{
	return type == RP_MANIFEST_UINT8 || type == RP_MANIFEST_UINT16 ||
	       type == RP_MANIFEST_UINT32 || type == RP_MANIFEST_UINT64;
}

/*
 * Read `count` or `length`: a number, or the name of an integer that precedes the field. A field
 * that names itself, or a later one, could not be read.
 */
static int read_extent(struct rp_manifest *manifest, const struct rp_xml_element *element,
		       const char *name, const struct rp_manifest_field *earlier,
		       struct rp_manifest_field *field, enum rp_manifest_extent *ret_extent)
{
	const char *text = rp_xml_attribute(element, name);

	if (!text)
		return 0;
	if (field->count != RP_MANIFEST_ONE || field->length != RP_MANIFEST_ONE)
		return rp_manifest_error(manifest, element,
					 "\"%s\" has a count or a length, not both", field->name);
	if (*text >= '0' && *text <= '9') {
		*ret_extent = RP_MANIFEST_FIXED;
		return rp_manifest_number(manifest, element, name, true, UINT16_MAX,
					  &field->extent_value);
	}
	while (earlier && strcmp(earlier->name, text) != 0)
		earlier = earlier->next;
	if (!earlier)
		return rp_manifest_error(manifest, element, "the %s of \"%s\" names a field that "
					 "precedes it; \"%s\" does not", name, field->name, text);
	if (!is_unsigned(earlier->type) || earlier->count != RP_MANIFEST_ONE)
		return rp_manifest_error(manifest, element, "the %s of \"%s\" names one unsigned "
					 "integer; \"%s\" is none", name, field->name, text);
	*ret_extent = RP_MANIFEST_BY_FIELD;
	field->extent_field = earlier;
	return 0;
}

static int read_type(struct rp_manifest *manifest, const struct rp_xml_element *element,
		     const struct rp_manifest_provider *provider, struct rp_manifest_field *field)
{
	const char *type, *map = rp_xml_attribute(element, "map");
	size_t i = 0, count = sizeof(in_types) / sizeof(in_types[0]);

	if (rp_manifest_require(manifest, element, "inType", &type) < 0)
		return -EBADMSG;
	while (i < count && strcmp(in_types[i].name, type) != 0)
		i++;
	if (i == count)
		return rp_manifest_error(manifest, element, "the inType of \"%s\" is a type of "
					 "ETW; \"%s\" is none", field->name, type);
	field->type = in_types[i].type;
	for (field->map = map ? provider->maps : NULL;
	     field->map && strcmp(field->map->name, map) != 0; )
		field->map = field->map->next;
	if (map && !field->map)
		return rp_manifest_error(manifest, element, "the map of \"%s\" is defined; \"%s\" "
					 "is not", field->name, map);
	return 0;
}

/* A length belongs to text and to bytes; bytes need one, because nothing ends them. */
static int check_length(struct rp_manifest *manifest, const struct rp_xml_element *element,
			const struct rp_manifest_field *field)
{
	const bool has_length = field->length != RP_MANIFEST_ONE;

	if (has_length && field->type != RP_MANIFEST_BINARY &&
	    field->type != RP_MANIFEST_UNICODE_STRING && field->type != RP_MANIFEST_ANSI_STRING)
		return rp_manifest_error(manifest, element, "only text and win:Binary have a "
					 "length; \"%s\" is neither", field->name);
	if (field->count != RP_MANIFEST_ONE && !rp_manifest_type_bytes(field->type) &&
	    field->type != RP_MANIFEST_UNICODE_STRING && field->type != RP_MANIFEST_ANSI_STRING)
		return rp_manifest_error(manifest, element, "the elements of an array have a fixed "
					 "size or are text; those of \"%s\" are not", field->name);
	if (!has_length && field->type == RP_MANIFEST_BINARY)
		return rp_manifest_error(manifest, element, "a field of win:Binary has a length; "
					 "\"%s\" has none", field->name);
	return 0;
}

static int read_fields(struct rp_manifest *manifest, const struct rp_manifest_provider *provider,
		       const struct rp_xml_element *parent, struct rp_manifest_field **ret_fields);

/* Return: 0; -errno, after an error line. */
static int read_field(struct rp_manifest *manifest, const struct rp_manifest_provider *provider,
		      const struct rp_xml_element *element,
		      const struct rp_manifest_field *earlier, struct rp_manifest_field *field)
{
	const bool is_struct = !strcmp(element->name, "struct");
	int ret;

	ret = rp_manifest_require(manifest, element, "name", &field->name);
	if (ret == 0)
		ret = read_extent(manifest, element, "count", earlier, field, &field->count);
	if (ret < 0)
		return ret;
	if (is_struct) {
		field->type = RP_MANIFEST_STRUCT;
		if (!strcmp(element->parent->name, "struct"))
			return rp_manifest_error(manifest, element, "a struct contains no struct");
		ret = read_fields(manifest, provider, element, &field->members);
		if (ret == 0 && !field->members)
			ret = rp_manifest_error(manifest, element, "a struct has a field");
	} else {
		ret = read_extent(manifest, element, "length", earlier, field, &field->length);
		if (ret == 0)
			ret = read_type(manifest, element, provider, field);
		if (ret == 0)
			ret = check_length(manifest, element, field);
	}
	if (ret < 0)
		return ret;
	field->symbol = rp_manifest_symbol(manifest, field->name);
	return field->symbol ? 0 : rp_manifest_out_of_memory();
}

static int read_fields(struct rp_manifest *manifest, const struct rp_manifest_provider *provider,
		       const struct rp_xml_element *parent, struct rp_manifest_field **ret_fields)
{
	struct rp_manifest_field **end = ret_fields;

	for (const struct rp_xml_element *each = parent->children; each; each = each->next) {
		struct rp_manifest_field *field;
		int ret;

		if (strcmp(each->name, "data") != 0 && strcmp(each->name, "struct") != 0)
			continue;
		field = rp_xml_allocate(&manifest->tree, sizeof(*field));
		ret = field ? read_field(manifest, provider, each, *ret_fields, field) :
		      rp_manifest_out_of_memory();
		if (ret < 0)
			return ret;
		for (const struct rp_manifest_field *other = *ret_fields; other;
		     other = other->next) {
			if (!strcmp(other->symbol, field->symbol))
				return rp_manifest_error(manifest, each, "the name of the field "
							 "\"%s\" is unique", field->name);
		}
		*end = field;
		end = &field->next;
	}
	return 0;
}

int rp_manifest_read_templates(struct rp_manifest *manifest, struct rp_manifest_provider *provider,
			       const struct rp_xml_element *section)
{
	struct rp_manifest_template **end = &provider->templates;
	const struct rp_xml_element *each;

	for (each = rp_xml_find(section->children, "template"); each;
	     each = rp_xml_find(each->next, "template")) {
		struct rp_manifest_template *template =
			rp_xml_allocate(&manifest->tree, sizeof(*template));
		int ret = template ? rp_manifest_require(manifest, each, "tid", &template->name) :
			  rp_manifest_out_of_memory();

		if (ret == 0)
			ret = read_fields(manifest, provider, each, &template->fields);
		if (ret < 0)
			return ret;
		template->symbol = rp_manifest_symbol(manifest, template->name);
		if (!template->symbol)
			return rp_manifest_out_of_memory();
		for (const struct rp_manifest_template *other = provider->templates; other;
		     other = other->next) {
			if (!strcmp(other->symbol, template->symbol))
				return rp_manifest_error(manifest, each, "the tid \"%s\" is unique",
							 template->name);
		}
		for (const struct rp_manifest_field *field = template->fields; field;
		     field = field->next)
			template->field_count++;
		*end = template;
		end = &template->next;
	}
	return 0;
}
