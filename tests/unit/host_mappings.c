/* SPDX-License-Identifier: MIT */
/* The table of mappings: the program, its libraries, the vDSO, and removed mappings. */
#include <criterion/criterion.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/mappings.h"

static const struct rp_mapping *mapping_of(const void *address)
{
	const struct rp_mapping *mapping, *found = NULL;
	uint64_t at = (uint64_t)(uintptr_t)address;

	for (size_t i = 0; (mapping = rp_mappings_at(i)) != NULL; i++) {
		if (at >= mapping->start && at < mapping->end)
			found = mapping;
	}
	return found;
}

static size_t count_of(const char *name)
{
	const struct rp_mapping *mapping;
	size_t count = 0;

	for (size_t i = 0; (mapping = rp_mappings_at(i)) != NULL; i++)
		count += strstr(mapping->path, name) != NULL;
	return count;
}

Test(host_mappings, knows_the_program_and_its_libraries)
{
	const struct rp_mapping *program, *libc;
	char path[4096] = "";

	rp_mappings_hold();
	program = mapping_of((const void *)(uintptr_t)mapping_of);
	libc = mapping_of(dlsym(RTLD_DEFAULT, "qsort"));
	cr_assert_not_null(program);
	cr_assert_not_null(libc);
	cr_assert_eq(program->kind, RP_MAPPING_PROGRAM);
	cr_assert_eq(libc->kind, RP_MAPPING_LIBRARY);
	cr_assert_gt(readlink("/proc/self/exe", path, sizeof(path) - 1), 0);
	cr_assert_str_eq(program->path, path);
	cr_assert_eq(libc->path[0], '/');
	cr_assert_eq(access(libc->path, R_OK), 0);
	cr_assert_gt(libc->build_id_bytes, 0);
	cr_assert_eq(count_of("[vdso]"), getauxval(AT_SYSINFO_EHDR) ? 1 : 0);
	rp_mappings_release();
}

Test(host_mappings, keeps_nothing_while_it_is_not_held)
{
	rp_mappings_refresh();
	cr_assert_null(rp_mappings_at(0));
	rp_mappings_hold();
	rp_mappings_hold();
	rp_mappings_release();
	cr_assert_not_null(rp_mappings_at(0));
	rp_mappings_release();
	cr_assert_null(rp_mappings_at(0));
}

Test(host_mappings, keeps_a_library_that_was_taken_back)
{
	const struct rp_mapping *mapping;
	void *library, *function;
	uint64_t before;

	rp_mappings_hold();
	before = mapping_of((const void *)(uintptr_t)mapping_of)->after_ns;
	cr_assert_eq(count_of("symbols_code"), 0);
	library = dlopen(SYMBOLS_CODE, RTLD_NOW);
	cr_assert_not_null(library, "%s", dlerror());
	function = dlsym(library, "plain_function");
	rp_mappings_refresh();
	mapping = mapping_of(function);
	cr_assert_not_null(mapping);
	cr_assert_str_eq(strrchr(mapping->path, '/'), strrchr(SYMBOLS_CODE, '/'));
	cr_assert_gt(mapping->after_ns, before);
	cr_assert_eq(dlclose(library), 0);
	rp_mappings_refresh();
	cr_assert_eq(mapping_of(function), mapping);
	rp_mappings_release();
}

Test(host_mappings, knows_a_library_that_comes_back_to_its_place_once)
{
	rp_mappings_hold();
	for (int i = 0; i < 20; i++) {
		void *library = dlopen(SYMBOLS_CODE, RTLD_NOW);

		cr_assert_not_null(library);
		rp_mappings_refresh();
		dlclose(library);
		rp_mappings_refresh();
	}
	/* The kernel may move it once, but not twenty times in an unchanged process. */
	cr_assert_lt(count_of("symbols_code"), 20);
	rp_mappings_release();
}

Test(host_mappings, is_empty_in_a_forked_child)
{
	int status;
	pid_t child;

	rp_mappings_hold();
	rp_mappings_fork_prepare();
	child = fork();
	if (child == 0) {
		rp_mappings_fork_child();
		if (rp_mappings_at(0))
			_exit(1);
		rp_mappings_hold();
		_exit(rp_mappings_at(0) ? 0 : 2);
	}
	rp_mappings_fork_parent();
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
	rp_mappings_release();
}
