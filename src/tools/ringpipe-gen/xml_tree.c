/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-gen/xml_tree.h"

#include <errno.h>
#include <expat.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/tool.h"

#define DEPTH_MAX 64u
#define READ_BYTES 65536

struct block {
	struct block *next;
	max_align_t bytes[];
};

struct reading {
	struct rp_xml_tree *tree;
	struct rp_xml_element *open;	/* the innermost element that has not ended */
	XML_Parser parser;
	unsigned int depth;		/* of `open` */
	int error;			/* -errno of a handler */
};

void *rp_xml_allocate(struct rp_xml_tree *tree, size_t bytes)
{
	struct block *block = calloc(1, sizeof(*block) + bytes);

	if (!block)
		return NULL;
	block->next = tree->blocks;
	tree->blocks = block;
	return block->bytes;
}

static const char *copy(struct rp_xml_tree *tree, const char *text)
{
	size_t bytes = strlen(text) + 1;
	char *own = rp_xml_allocate(tree, bytes);

	return own ? memcpy(own, text, bytes) : NULL;
}

static int add_attributes(struct rp_xml_tree *tree, struct rp_xml_element *element,
			  const XML_Char **pairs)
{
	struct rp_xml_attribute **end = &element->attributes;

	for (; *pairs; pairs += 2) {
		struct rp_xml_attribute *attribute = rp_xml_allocate(tree, sizeof(*attribute));

		if (!attribute)
			return -ENOMEM;
		attribute->name = copy(tree, pairs[0]);
		attribute->value = copy(tree, pairs[1]);
		if (!attribute->name || !attribute->value)
			return -ENOMEM;
		*end = attribute;
		end = &attribute->next;
	}
	return 0;
}

static void link_element(struct reading *reading, struct rp_xml_element *element)
{
	struct rp_xml_element *parent = reading->open;

	element->parent = parent;
	if (!parent)
		reading->tree->root = element;
	else if (parent->last_child)
		parent->last_child->next = element;
	else
		parent->children = element;
	if (parent)
		parent->last_child = element;
	reading->open = element;
}

static void stop(struct reading *reading, int error)
{
	reading->error = error;
	XML_StopParser(reading->parser, XML_FALSE);
}

static void XMLCALL begin_element(void *data, const XML_Char *name, const XML_Char **attributes)
{
	struct reading *reading = data;
	const char *colon = strrchr(name, ':');
	struct rp_xml_element *element = rp_xml_allocate(reading->tree, sizeof(*element));

	if (element)
		element->name = copy(reading->tree, colon ? colon + 1 : name);
	if (!element || !element->name ||
	    add_attributes(reading->tree, element, attributes) != 0) {
		stop(reading, -ENOMEM);
		return;
	}
	element->line = XML_GetCurrentLineNumber(reading->parser);
	element->column = XML_GetCurrentColumnNumber(reading->parser) + 1;
	link_element(reading, element);
	if (++reading->depth > DEPTH_MAX)
		stop(reading, -ELOOP);
}

static void XMLCALL end_element(void *data, const XML_Char *name)
{
	struct reading *reading = data;

	(void)name;
	if (reading->open)
		reading->open = reading->open->parent;
	reading->depth--;
}

static int report(const struct reading *reading)
{
	const char *rule = XML_ErrorString(XML_GetErrorCode(reading->parser));

	if (reading->error == -ENOMEM ||
	    XML_GetErrorCode(reading->parser) == XML_ERROR_NO_MEMORY) {
		rp_tool_error("out of memory");
		return -ENOMEM;
	}
	rp_tool_error("%s:%lu:%lu: %s", reading->tree->path,
		      (unsigned long)XML_GetCurrentLineNumber(reading->parser),
		      (unsigned long)XML_GetCurrentColumnNumber(reading->parser) + 1,
		      reading->error == -ELOOP ? "elements are nested deeper than 64" : rule);
	return -EBADMSG;
}

static int parse(struct reading *reading, int fd)
{
	ssize_t size;

	do {
		void *buffer = XML_GetBuffer(reading->parser, READ_BYTES);

		if (!buffer)
			return report(reading);
		size = read(fd, buffer, READ_BYTES);
		if (size < 0) {
			int error = errno;

			rp_tool_error("cannot read %s: %s", reading->tree->path, strerror(error));
			return -error;
		}
		if (XML_ParseBuffer(reading->parser, (int)size, size == 0) != XML_STATUS_OK)
			return report(reading);
	} while (size > 0);
	return 0;
}

int rp_xml_read(struct rp_xml_tree *tree, const char *path)
{
	struct reading reading = { .tree = tree };
	int fd = open(path, O_RDONLY | O_CLOEXEC), ret;

	*tree = (struct rp_xml_tree){ .path = path };
	if (fd < 0) {
		ret = -errno;
		rp_tool_error("cannot open %s: %s", path, strerror(-ret));
		return ret;
	}
	reading.parser = XML_ParserCreate(NULL);
	if (reading.parser) {
		XML_SetUserData(reading.parser, &reading);
		XML_SetElementHandler(reading.parser, begin_element, end_element);
		ret = parse(&reading, fd);
		XML_ParserFree(reading.parser);
	} else {
		rp_tool_error("out of memory");
		ret = -ENOMEM;
	}
	close(fd);
	return ret;
}

void rp_xml_free(struct rp_xml_tree *tree)
{
	struct block *block = tree->blocks;

	while (block) {
		struct block *next = block->next;

		free(block);
		block = next;
	}
	*tree = (struct rp_xml_tree){ 0 };
}

const char *rp_xml_attribute(const struct rp_xml_element *element, const char *name)
{
	for (const struct rp_xml_attribute *each = element->attributes; each; each = each->next) {
		if (!strcmp(each->name, name))
			return each->value;
	}
	return NULL;
}

const struct rp_xml_element *rp_xml_find(const struct rp_xml_element *first, const char *name)
{
	while (first && strcmp(first->name, name) != 0)
		first = first->next;
	return first;
}
