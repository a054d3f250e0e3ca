/* SPDX-License-Identifier: MIT */
/* Checks of the names of frames, and of the rundown. */
#include "host_test/suite.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* The frames of one call, from the suite's thread. */
struct call_frames {
	struct rp_suite *suite;
	uint64_t frames[RP_STACK_MAX];
	unsigned int count;
};

static void take_frames(void *data)
{
	struct call_frames *call = data;

	call->count = rp_suite_walk(call->suite->host, call->frames, RP_STACK_MAX);
}

/* Return: false if the host has no walk or no resolve, with the reason. */
static bool get_frames(struct rp_suite *suite, struct call_frames *ret_call)
{
	ret_call->suite = suite;
	ret_call->count = 0;
	if (!suite->host->walk || !suite->host->resolve) {
		rp_suite_skip(suite, "no walk or no resolve");
		return false;
	}
	suite->test->call(take_frames, ret_call, suite->test->data);
	return true;
}

enum rp_check_result rp_check_methods_contain_their_frames(struct rp_suite *suite)
{
	struct rp_host_method method;
	struct call_frames call;

	if (!get_frames(suite, &call))
		return RP_CHECK_SKIPPED;
	for (unsigned int i = 0; i < call.count; i++) {
		if (rp_suite_resolve(suite->host, call.frames[i], &method) != 0)
			return rp_suite_fail(suite, "frame %u has no method", i);
		if (call.frames[i] < method.start || call.frames[i] >= method.end)
			return rp_suite_fail(suite, "frame %u is outside of its method", i);
	}
	return RP_CHECK_OK;
}

static bool is_readable(uint64_t address)
{
	char byte;
	struct iovec to = { &byte, 1 }, from = { (void *)(uintptr_t)address, 1 };

	return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1;
}

enum rp_check_result rp_check_methods_have_a_middle(struct rp_suite *suite)
{
	struct rp_host_method method;
	struct call_frames call;

	if (!get_frames(suite, &call))
		return RP_CHECK_SKIPPED;
	for (unsigned int i = 0; i < call.count; i++) {
		uint64_t frame = call.frames[i];

		if (is_readable(frame) || rp_suite_resolve(suite->host, frame, &method) != 0)
			continue;
		if (frame <= method.start || frame + 1 >= method.end)
			return rp_suite_fail(suite, "frame %u is the first or the last number of "
					     "its method", i);
	}
	return RP_CHECK_OK;
}

enum rp_check_result rp_check_resolve_ends_its_texts(struct rp_suite *suite)
{
	struct call_frames call;

	if (!get_frames(suite, &call))
		return RP_CHECK_SKIPPED;
	for (unsigned int i = 0; i < call.count; i++) {
		struct rp_host_method method;

		memset(&method, 0xff, sizeof(method));
		method.size = sizeof(method);
		method.file[0] = '\0';
		if (suite->host->resolve(call.frames[i], &method, suite->host->data) != 0)
			continue;
		if (!memchr(method.name, '\0', sizeof(method.name)) ||
		    !memchr(method.file, '\0', sizeof(method.file)))
			return rp_suite_fail(suite, "a text of frame %u has no NUL", i);
	}
	return RP_CHECK_OK;
}

enum rp_check_result rp_check_resolve_refuses_other_frames(struct rp_suite *suite)
{
	const uint64_t others[] = {
		4096, (uint64_t)(uintptr_t)rp_suite_resolve, (uint64_t)(uintptr_t)&suite,
		(1ull << 47) - 4096,
	};
	struct rp_host_method method;

	if (!suite->host->resolve)
		return rp_suite_skip(suite, "no resolve");
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (rp_suite_resolve(suite->host, others[i], &method) >= 0)
			return rp_suite_fail(suite, "it has the method \"%.*s\" at 0x%llx",
					     100, method.name, (unsigned long long)others[i]);
	}
	return RP_CHECK_OK;
}

struct resolved {
	const struct rp_host *host;
	uint64_t frame;
	struct rp_host_method method;
	int ret;
};

static void *resolve_elsewhere(void *data)
{
	struct resolved *resolved = data;

	resolved->ret = rp_suite_resolve(resolved->host, resolved->frame, &resolved->method);
	return NULL;
}

enum rp_check_result rp_check_resolve_works_in_every_thread(struct rp_suite *suite)
{
	struct call_frames call;

	if (!get_frames(suite, &call))
		return RP_CHECK_SKIPPED;
	for (unsigned int i = 0; i < call.count; i++) {
		struct resolved there = { .host = suite->host, .frame = call.frames[i] };
		struct rp_host_method here;
		pthread_t thread;
		int ret = rp_suite_resolve(suite->host, call.frames[i], &here);

		if (pthread_create(&thread, NULL, resolve_elsewhere, &there) != 0)
			return rp_suite_skip(suite, "no thread could start");
		pthread_join(thread, NULL);
		if (there.ret != ret || there.method.start != here.start ||
		    strncmp(there.method.name, here.name, sizeof(here.name)) != 0)
			return rp_suite_fail(suite, "another thread gets another method of "
					     "frame %u", i);
	}
	return RP_CHECK_OK;
}

/* The module that contains a frame. */
struct module_search {
	uint64_t frame;
	bool found;
};

static void search_module(const struct rp_host_module *module, void *data)
{
	struct module_search *search = data;

	search->found |= search->frame >= module->range.start && search->frame < module->range.end;
}

enum rp_check_result rp_check_modules_contain_the_frames(struct rp_suite *suite)
{
	struct call_frames call;

	if (!suite->host->list_modules)
		return rp_suite_skip(suite, "no list_modules");
	if (!get_frames(suite, &call))
		return RP_CHECK_SKIPPED;
	for (unsigned int i = 0; i < call.count; i++) {
		struct module_search search = { call.frames[i], false };

		suite->host->list_modules(search_module, &search, suite->host->data);
		if (!search.found)
			return rp_suite_fail(suite, "no module contains frame %u", i);
	}
	return RP_CHECK_OK;
}

/* A module of the host that overlaps a loaded object. */
struct overlap {
	struct rp_host_range range;
	const char *object;
};

static int compare_object(struct dl_phdr_info *object, size_t size, void *data)
{
	struct overlap *overlap = data;

	(void)size;
	for (size_t i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];
		uint64_t start = object->dlpi_addr + part->p_vaddr;

		if (part->p_type == PT_LOAD && start < overlap->range.end &&
		    overlap->range.start < start + part->p_memsz)
			overlap->object = *object->dlpi_name ? object->dlpi_name : "the program";
	}
	return 0;
}

static void find_overlap(const struct rp_host_module *module, void *data)
{
	struct overlap *overlap = data;

	overlap->range = module->range;
	if (!overlap->object)
		dl_iterate_phdr(compare_object, overlap);
}

enum rp_check_result rp_check_modules_contain_no_loaded_objects(struct rp_suite *suite)
{
	struct overlap overlap = { .object = NULL };

	if (!suite->host->list_modules)
		return rp_suite_skip(suite, "no list_modules");
	suite->host->list_modules(find_overlap, &overlap, suite->host->data);
	return overlap.object ? rp_suite_fail(suite, "a module overlaps %s", overlap.object) :
	       RP_CHECK_OK;
}

static void check_code(const struct rp_host_method *method, void *data)
{
	struct rp_suite *suite = data;

	if (method->start >= method->end)
		rp_suite_fail(suite, "the range of a method is empty");
	else if (!method->code || !is_readable((uint64_t)(uintptr_t)method->code) ||
		 !is_readable((uint64_t)(uintptr_t)method->code + method->end - method->start - 1))
		rp_suite_fail(suite, "the code of %.*s cannot be read", 100, method->name);
}

enum rp_check_result rp_check_listed_methods_have_code(struct rp_suite *suite)
{
	if (!suite->host->list_methods)
		return rp_suite_skip(suite, "no list_methods");
	suite->host->list_methods(check_code, suite, suite->host->data);
	return *suite->reason ? RP_CHECK_FAILED : RP_CHECK_OK;
}
