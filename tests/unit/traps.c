/* SPDX-License-Identifier: MIT */
#include "traps.h"

#include <errno.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define TRAP 0xcc
#define PLACES_MAX 4000u

static struct {
	struct trap_place *place;
	void (*then)(void);
	unsigned int hits, most;
	uint8_t byte;		/* the original byte */
	bool planted;
} trap;

static void take_out(void)
{
	if (trap.planted)
		*(volatile uint8_t *)trap.place->at = trap.byte;
	trap.planted = false;
}

static void on_trap(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info, (void)context;
	if (++trap.hits == trap.most)
		take_out();
#if defined(__x86_64__)
	/*
	 * Outside a section the byte's instruction is not restarted, so it must still be executed.
	 */
	if (!trap.place->aborts)
		((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP]--;
#endif
	if (trap.then)
		trap.then();
}

void traps_plant(struct trap_place *place, unsigned int most, void (*then)(void))
{
	trap.place = place;
	trap.then = then;
	trap.hits = 0;
	trap.byte = *place->at;
	trap.most = place->aborts ? most : 1;
	trap.planted = true;
	*(volatile uint8_t *)place->at = TRAP;
}

unsigned int traps_take_out(void)
{
	take_out();
	trap.place->hits += trap.hits;
	return trap.hits;
}

static int first_object(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	*(uintptr_t *)data = info->dlpi_addr;
	return 1;
}

/* Whether the list already has the place: a section's instructions come first. */
static bool is_known(const struct trap_places *places, const uint8_t *at)
{
	for (size_t i = 0; i < places->count; i++) {
		if (places->list[i].at == at)
			return true;
	}
	return false;
}

/* Whether the instruction is padding before an aligned place, which is never executed. */
static bool is_filling(const char *text)
{
	return strstr(text, "nopw") || strstr(text, "nopl");
}

/* Reads objdump's output with these arguments: "  401136:<tab>mov    %rax,(%rdi)". */
static int disassemble(const char *arguments, bool aborts, struct trap_places *places)
{
	uintptr_t base = 0;
	char line[400];
	FILE *output;

	dl_iterate_phdr(first_object, &base);
	snprintf(line, sizeof(line), "objdump -d --no-show-raw-insn %s /proc/%d/exe 2>/dev/null",
		 arguments, (int)getpid());
	output = popen(line, "r");
	if (!output)
		return -errno;
	while (fgets(line, sizeof(line), output)) {
		char *end, *text = strstr(line, ":\t");
		uintptr_t address = strtoul(line, &end, 16);
		struct trap_place *place = &places->list[places->count];

		if (!text || end != text || is_known(places, (void *)(base + address)))
			continue;
		/* Not -ENOENT, which means that objdump is missing and skips the test. */
		if (places->count == PLACES_MAX)
			abort();
		*place = (struct trap_place){ .at = (void *)(base + address), .aborts = aborts };
		text[strcspn(text, "\n#")] = '\0';
		if (is_filling(text + 2))
			continue;
		snprintf(place->text, sizeof(place->text), "%s", text + 2);
		places->count++;
	}
	return pclose(output) == 0 ? 0 : -ENOENT;
}

static int disassemble_function(const char *name, struct trap_places *places)
{
	char arguments[100];

	snprintf(arguments, sizeof(arguments), "--disassemble=%s", name);
	return disassemble(arguments, false, places);
}

static int disassemble_section(const struct trap_section *section, struct trap_places *places)
{
	char arguments[100];
	uintptr_t base = 0;

	dl_iterate_phdr(first_object, &base);
	snprintf(arguments, sizeof(arguments), "--start-address=%#lx --stop-address=%#lx",
		 (unsigned long)(section->start - base),
		 (unsigned long)(section->start + section->commit_offset - base));
	return disassemble(arguments, true, places);
}

/* Finds sections that begin in the disassembled functions, and inserts them before `all`. */
static int find_sections(const struct trap_places *all, struct trap_places *places)
{
	int ret = 0;

	for (const struct trap_section *section = __start___rseq_cs;
	     section < __stop___rseq_cs && ret == 0; section++) {
		if (is_known(all, (const uint8_t *)(uintptr_t)section->start))
			ret = disassemble_section(section, places);
	}
	return ret;
}

int traps_allow(const struct trap_place *places, size_t count)
{
	struct sigaction action = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO };
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	for (size_t i = 0; i < count; i++) {
		uintptr_t start = (uintptr_t)places[i].at & ~(page - 1);

		if (mprotect((void *)start, page, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
			return -EPERM;
	}
	return sigaction(SIGTRAP, &action, NULL) == 0 ? 0 : -errno;
}

int traps_find(const char *const *functions, struct trap_places *ret_places)
{
	struct trap_places all = { 0 }, places = { 0 };
	int ret = 0;

	all.list = calloc(PLACES_MAX, sizeof(*all.list));
	places.list = calloc(PLACES_MAX, sizeof(*places.list));
	if (!all.list || !places.list)
		ret = -ENOMEM;
	for (const char *const *name = functions; *name && ret == 0; name++)
		ret = disassemble_function(*name, &all);
	ret = ret ? ret : find_sections(&all, &places);
	for (size_t i = 0; i < all.count && places.count < PLACES_MAX; i++) {
		if (!is_known(&places, all.list[i].at))
			places.list[places.count++] = all.list[i];
	}
	free(all.list);
	ret = ret ? ret : traps_allow(places.list, places.count);
	if (ret == 0)
		*ret_places = places;
	else
		free(places.list);
	return ret;
}

void traps_free(struct trap_places *places)
{
	free(places->list);
}

const char *traps_explain(int error)
{
	return error == -ENOSYS ? "no restartable sequences here" :
	       error == -ENOENT ? "no objdump" : "no program may change its code here";
}
