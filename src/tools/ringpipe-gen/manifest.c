/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-gen/manifest.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include <ringpipe/types.h>

#include "tools/ringpipe-gen/manifest_text.h"

/* Call `read` for each section of this name: a manifest may have several. */
static int read_sections(struct rp_manifest *manifest, struct rp_manifest_provider *provider,
			 const struct rp_xml_element *element, const char *name,
			 int (*read)(struct rp_manifest *manifest,
				     struct rp_manifest_provider *provider,
				     const struct rp_xml_element *section))
{
	const struct rp_xml_element *section = rp_xml_find(element->children, name);

	for (; section; section = rp_xml_find(section->next, name)) {
		int ret = read(manifest, provider, section);

		if (ret < 0)
			return ret;
	}
	return 0;
}

static int read_keywords(struct rp_manifest *manifest, struct rp_manifest_provider *provider,
			 const struct rp_xml_element *section)
{
	return rp_manifest_read_names(manifest, provider, section, "keyword", &provider->keywords);
}

static int read_levels(struct rp_manifest *manifest, struct rp_manifest_provider *provider,
		       const struct rp_xml_element *section)
{
	return rp_manifest_read_names(manifest, provider, section, "level", &provider->levels);
}

static int read_opcodes(struct rp_manifest *manifest, struct rp_manifest_provider *provider,
			const struct rp_xml_element *section)
{
	return rp_manifest_read_names(manifest, provider, section, "opcode", &provider->opcodes);
}

static int read_tasks(struct rp_manifest *manifest, struct rp_manifest_provider *provider,
		      const struct rp_xml_element *section)
{
	const struct rp_xml_element *task = rp_xml_find(section->children, "task");
	int ret = rp_manifest_read_names(manifest, provider, section, "task", &provider->tasks);

	for (; ret == 0 && task; task = rp_xml_find(task->next, "task"))
		ret = read_sections(manifest, provider, task, "opcodes", read_opcodes);
	return ret;
}

/* A GUID has the form {00000000-0000-0000-0000-000000000000}, in braces or without. */
static bool is_guid(const char *guid)
{
	const size_t length = strlen(guid);
	const bool has_braces = *guid == '{';

	if (length != (has_braces ? 38u : 36u) || (has_braces && guid[37] != '}'))
		return false;
	guid += has_braces;
	for (size_t i = 0; i < 36; i++) {
		const bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (is_dash ? guid[i] != '-' : !isxdigit((unsigned char)guid[i]))
			return false;
	}
	return true;
}

/* The symbol of MY_PROVIDER is my, so that its functions are my_event(). */
static int name_provider(struct rp_manifest *manifest, const struct rp_xml_element *element,
			 struct rp_manifest_provider *provider)
{
	static const char ending[] = "_PROVIDER";
	const char *symbol = rp_xml_attribute(element, "symbol");
	size_t length;
	char *prefix;

	symbol = rp_manifest_symbol(manifest, symbol && *symbol ? symbol : provider->name);
	prefix = symbol ? (char *)rp_manifest_upper(manifest, symbol) : NULL;
	if (!prefix)
		return rp_manifest_out_of_memory();
	length = strlen(prefix);
	if (length > sizeof(ending) - 1 && !strcmp(prefix + length - sizeof(ending) + 1, ending))
		prefix[length - sizeof(ending) + 1] = '\0';
	provider->prefix = prefix;
	symbol = rp_manifest_lower(manifest, prefix);
	provider->symbol = symbol ? rp_manifest_symbol(manifest, symbol) : NULL;
	return provider->symbol ? 0 : rp_manifest_out_of_memory();
}

static int read_provider(struct rp_manifest *manifest, const struct rp_xml_element *element,
			 struct rp_manifest_provider *provider)
{
	int ret = rp_manifest_require(manifest, element, "name", &provider->name);

	if (ret == 0)
		ret = rp_manifest_require(manifest, element, "guid", &provider->guid);
	if (ret == 0 && !is_guid(provider->guid))
		ret = rp_manifest_error(manifest, element, "the guid of a provider has 32 "
					"hexadecimal digits and four dashes");
	if (ret == 0 && strlen(provider->name) > RP_NAME_MAX)
		ret = rp_manifest_error(manifest, element, "the name of a provider has up to %u "
					"bytes", RP_NAME_MAX);
	if (ret == 0)
		ret = name_provider(manifest, element, provider);
	for (const struct rp_manifest_provider *other = manifest->providers; ret == 0 && other;
	     other = other->next) {
		if (!strcmp(other->symbol, provider->symbol))
			ret = rp_manifest_error(manifest, element, "the symbol of a provider is "
						"unique; \"%s\" is not", provider->symbol);
	}
	if (ret == 0)
		ret = read_sections(manifest, provider, element, "keywords", read_keywords);
	if (ret == 0)
		ret = read_sections(manifest, provider, element, "levels", read_levels);
	if (ret == 0)
		ret = read_sections(manifest, provider, element, "tasks", read_tasks);
	if (ret == 0)
		ret = read_sections(manifest, provider, element, "opcodes", read_opcodes);
	if (ret == 0)
		ret = read_sections(manifest, provider, element, "maps", rp_manifest_read_maps);
	if (ret == 0)
		ret = read_sections(manifest, provider, element, "templates",
				    rp_manifest_read_templates);
	if (ret == 0)
		ret = read_sections(manifest, provider, element, "events",
				    rp_manifest_read_events);
	provider->has_channels = rp_xml_find(element->children, "channels") != NULL;
	return ret;
}

static int read_providers(struct rp_manifest *manifest, const struct rp_xml_element *events)
{
	struct rp_manifest_provider **end = &manifest->providers;
	const struct rp_xml_element *each;

	while (*end)
		end = &(*end)->next;
	for (each = rp_xml_find(events->children, "provider"); each;
	     each = rp_xml_find(each->next, "provider")) {
		struct rp_manifest_provider *provider =
			rp_xml_allocate(&manifest->tree, sizeof(*provider));
		int ret = provider ? read_provider(manifest, each, provider) :
			  rp_manifest_out_of_memory();

		if (ret < 0)
			return ret;
		*end = provider;
		end = &provider->next;
	}
	return 0;
}

int rp_manifest_read(struct rp_manifest *manifest, const char *path, const char *culture)
{
	const struct rp_xml_element *root, *section, *events;
	int ret;

	*manifest = (struct rp_manifest){ 0 };
	ret = rp_xml_read(&manifest->tree, path);
	if (ret < 0)
		return ret;
	root = manifest->tree.root;
	if (strcmp(root->name, "instrumentationManifest") != 0)
		return rp_manifest_error(manifest, root, "the outermost element of a manifest is "
					 "instrumentationManifest");
	ret = rp_manifest_read_strings(manifest, culture);
	for (section = rp_xml_find(root->children, "instrumentation"); ret == 0 && section;
	     section = rp_xml_find(section->next, "instrumentation")) {
		for (events = rp_xml_find(section->children, "events"); ret == 0 && events;
		     events = rp_xml_find(events->next, "events"))
			ret = read_providers(manifest, events);
	}
	if (ret == 0 && !manifest->providers)
		ret = rp_manifest_error(manifest, root, "a manifest has a provider");
	return ret;
}

void rp_manifest_free(struct rp_manifest *manifest)
{
	rp_xml_free(&manifest->tree);
	*manifest = (struct rp_manifest){ 0 };
}
