/* SPDX-License-Identifier: MIT */
/* The elements of an XML file as a tree, with the place of each element, for messages. */
#ifndef RP_TOOL_XML_TREE_H
#define RP_TOOL_XML_TREE_H

#include <stddef.h>

struct rp_xml_attribute {
	struct rp_xml_attribute *next;
	const char *name, *value;
};

struct rp_xml_element {
	const char *name;		/* without the prefix of its namespace */
	struct rp_xml_attribute *attributes;
	struct rp_xml_element *parent, *next, *children, *last_child;
	unsigned long line, column;	/* of its "<", from 1 */
};

struct rp_xml_tree {
	const char *path;
	struct rp_xml_element *root;
	void *blocks;			/* all memory of the tree */
};

/*
 * Read a file. Return: 0; -errno, after an error line; rp_xml_free() is necessary in both cases.
 * The tree refers to `path`.
 */
int rp_xml_read(struct rp_xml_tree *tree, const char *path);

/* Free the tree and what rp_xml_allocate() returned. */
void rp_xml_free(struct rp_xml_tree *tree);

/* Allocate zeroed memory that lives as long as the tree. Return: NULL without memory. */
void *rp_xml_allocate(struct rp_xml_tree *tree, size_t bytes);

/* Return: the value of an attribute, or NULL. */
const char *rp_xml_attribute(const struct rp_xml_element *element, const char *name);

/* Return: the first element with that name in a list of siblings, or NULL. */
const struct rp_xml_element *rp_xml_find(const struct rp_xml_element *first, const char *name);

#endif
