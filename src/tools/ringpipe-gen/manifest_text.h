/* SPDX-License-Identifier: MIT */
/* Functions that all parts of the parser of manifests share: errors, numbers, names. */
#ifndef RP_TOOL_MANIFEST_TEXT_H
#define RP_TOOL_MANIFEST_TEXT_H

#include <stdint.h>

#include "tools/ringpipe-gen/manifest.h"

/* Print the place of the element and the rule that it breaks. Return: -EBADMSG. */
int rp_manifest_error(const struct rp_manifest *manifest, const struct rp_xml_element *element,
		      const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Print that memory is exhausted. Return: -ENOMEM. */
int rp_manifest_out_of_memory(void);

/* Get an attribute that the element must have. Return: 0; -EBADMSG, after an error line. */
int rp_manifest_require(const struct rp_manifest *manifest, const struct rp_xml_element *element,
			const char *name, const char **ret_value);

/*
 * Get the number of an attribute, decimal or hexadecimal with 0x. An optional attribute that is
 * absent leaves `ret_value` unchanged. Return: 0; -EBADMSG, after an error line.
 */
int rp_manifest_number(const struct rp_manifest *manifest, const struct rp_xml_element *element,
		       const char *name, bool is_required, uint64_t max, uint64_t *ret_value);

/*
 * Make an identifier from a name: other characters become underscores, and a keyword of C or C++
 * gets one at its end. Return: the identifier, which lives as long as the manifest; NULL without
 * memory.
 */
const char *rp_manifest_symbol(struct rp_manifest *manifest, const char *name);

/* Return: a copy of the text in upper or lower case, or NULL without memory. */
const char *rp_manifest_upper(struct rp_manifest *manifest, const char *text);
const char *rp_manifest_lower(struct rp_manifest *manifest, const char *text);

/*
 * Read the string table of the culture, which may be NULL, as in rp_manifest_read(). Return: 0;
 * -errno, after an error line.
 */
int rp_manifest_read_strings(struct rp_manifest *manifest, const char *culture);

/*
 * Get the text of an element's message, which may name an entry of the string table.
 * `ret_message` becomes NULL if the element has no message. Return: 0; -EBADMSG, after an error
 * line.
 */
int rp_manifest_message(const struct rp_manifest *manifest, const struct rp_xml_element *element,
			const char **ret_message);

/*
 * Read the tables of a provider that events refer to. Return: 0; -errno, after an error line.
 * `section` is the element that contains the rows.
 */
int rp_manifest_read_names(struct rp_manifest *manifest,
			   const struct rp_manifest_provider *provider,
			   const struct rp_xml_element *section, const char *row,
			   struct rp_manifest_name **ret_names);
int rp_manifest_read_maps(struct rp_manifest *manifest, struct rp_manifest_provider *provider,
			  const struct rp_xml_element *section);
int rp_manifest_read_templates(struct rp_manifest *manifest, struct rp_manifest_provider *provider,
			       const struct rp_xml_element *section);
int rp_manifest_read_events(struct rp_manifest *manifest, struct rp_manifest_provider *provider,
			    const struct rp_xml_element *section);

#endif
