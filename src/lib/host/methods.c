/* SPDX-License-Identifier: MIT */
#include "host/methods.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/host_table.h"
#include "base/utf.h"

/* The path of code without a module. */
#define NO_MODULE "[code]"

static bool add_module(struct rp_method_modules *modules, uint64_t start, uint64_t end,
		       const char *path)
{
	struct rp_method_module *grown, module = { start, end, 0, strdup(path) };

	grown = module.path ? rp_array_reserve(modules->items, modules->count, &modules->capacity,
					       1, sizeof(*grown)) : NULL;
	if (!grown) {
		free(module.path);
		return false;
	}
	modules->items = grown;
	modules->items[modules->count++] = module;
	return true;
}

static void see_module(const struct rp_host_module *module, void *data)
{
	if (module->size >= RP_HOST_MODULE_SIZE_V1 && module->path &&
	    module->range.start < module->range.end)
		(void)add_module(data, module->range.start, module->range.end, module->path);
}

void rp_method_modules_init(struct rp_method_modules *modules)
{
	const struct rp_host *host = rp_host_running();

	*modules = (struct rp_method_modules){ NULL, 0, 0 };
	if (host && host->list_modules)
		host->list_modules(see_module, modules, host->data);
}

void rp_method_modules_fini(struct rp_method_modules *modules)
{
	for (size_t i = 0; i < modules->count; i++)
		free(modules->items[i].path);
	free(modules->items);
}

struct rp_method_module *rp_method_modules_find(struct rp_method_modules *modules,
						const struct rp_method *method)
{
	for (size_t i = 0; i < modules->count; i++) {
		if (method->start >= modules->items[i].start &&
		    method->end <= modules->items[i].end)
			return &modules->items[i];
	}
	if (!add_module(modules, method->start, method->end, NO_MODULE))
		return NULL;
	return &modules->items[modules->count - 1];
}

/* Make the text safe to show: one line of valid UTF-8. */
static void clean(char *text)
{
	bool is_valid = rp_utf8_is_valid(text, strlen(text));

	for (char *at = text; *at; at++) {
		unsigned char byte = (unsigned char)*at;

		if (byte < ' ' || byte == 0x7f || (byte >= 0x80 && !is_valid))
			*at = '?';
	}
}

void rp_method_print(const struct rp_host_method *method, char ret_text[RP_SYMBOL_NAME_MAX + 1])
{
	int name_bytes = (int)strnlen(method->name, sizeof(method->name));
	int file_bytes = (int)strnlen(method->file, sizeof(method->file));
	char line[16] = "";

	if (method->line && file_bytes)
		snprintf(line, sizeof(line), ":%u", method->line);
	snprintf(ret_text, RP_SYMBOL_NAME_MAX + 1, "%.*s%s%.*s%s", name_bytes, method->name,
		 name_bytes && file_bytes ? " " : "", file_bytes, method->file, line);
	clean(ret_text);
}

static bool ask_host(uint64_t frame, struct rp_host_method *method)
{
	const struct rp_host *host = rp_host_running();

	if (!host || !host->resolve)
		return false;
	memset(method, 0, sizeof(*method));
	method->size = sizeof(*method);
	return host->resolve(frame, method, host->data) == 0 && method->start <= frame &&
	       frame < method->end;
}

bool rp_method_find(const struct rp_code_list *list, const struct rp_address *frame,
		    struct rp_method *ret_method)
{
	const struct rp_generated_code *code = rp_code_list_find(list, frame->address,
								 frame->time_ns);
	struct rp_host_method method;

	if (code) {
		ret_method->start = code->address;
		ret_method->end = code->address + code->bytes;
		snprintf(ret_method->text, sizeof(ret_method->text), "%s", code->name);
		clean(ret_method->text);
		return true;
	}
	if (!ask_host(frame->address, &method))
		return false;
	ret_method->start = method.start;
	ret_method->end = method.end;
	rp_method_print(&method, ret_method->text);
	return *ret_method->text != '\0';
}
