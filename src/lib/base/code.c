/* SPDX-License-Identifier: MIT */
#include "base/code.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define PAGE 4096u		/* of x86-64, the only machine on which code is changed */

struct search {
	uintptr_t address;
	struct rp_code code;
};

static int protection_of(uint32_t flags)
{
	return (flags & PF_R ? PROT_READ : 0) | (flags & PF_W ? PROT_WRITE : 0) |
	       (flags & PF_X ? PROT_EXEC : 0);
}

static int look_at_object(struct dl_phdr_info *info, size_t size, void *data)
{
	struct search *search = data;

	(void)size;
	for (unsigned int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t begin = info->dlpi_addr + segment->p_vaddr;
		uintptr_t end = begin + segment->p_memsz;

		if (segment->p_type != PT_LOAD || search->address < begin || search->address >= end)
			continue;
		if ((segment->p_flags & (PF_R | PF_X)) != (PF_R | PF_X))
			return 1;
		search->code = (struct rp_code){
			.begin = begin / PAGE * PAGE, .end = (end + PAGE - 1) / PAGE * PAGE,
			.protection = protection_of(segment->p_flags),
		};
		return 1;
	}
	return 0;
}

int rp_code_find(const void *address, struct rp_code *ret_code)
{
	struct search search = { .address = (uintptr_t)address };

	dl_iterate_phdr(look_at_object, &search);
	if (search.code.begin == search.code.end)
		return -ENOENT;
	*ret_code = search.code;
	return 0;
}

/* ThreadSanitizer has no shadow memory for code. */
#define UNWATCHED __attribute__((noinline, no_sanitize("thread")))

UNWATCHED unsigned char rp_code_read(const unsigned char *at)
{
	return *(const volatile unsigned char *)at;
}

static UNWATCHED void store(unsigned char *at, unsigned char byte)
{
	*(volatile unsigned char *)at = byte;
}

/* The host may have reused this number. A check costs half of a write: do it once per page. */
static bool is_memory(struct rp_code_change *change, uintptr_t page)
{
	bool is = change->memory >= 0 &&
		  (page == change->page || rp_file_is(change->memory, &change->file));

	change->page = is ? page : 0;
	return is;
}

static bool write_by_proc(struct rp_code_change *change, unsigned char *at, unsigned char byte)
{
	if (!change->asked) {
		/* Open it each time: a descriptor refers to the memory of its opener. */
		change->memory = open("/proc/thread-self/mem", O_WRONLY | O_CLOEXEC);
		change->asked = true;
		if (change->memory >= 0 &&
		    rp_file_identify(change->memory, &change->file) != 0) {
			close(change->memory);
			change->memory = -1;
		}
	}
	return is_memory(change, (uintptr_t)at / PAGE) &&
	       pwrite(change->memory, &byte, 1, (off_t)(uintptr_t)at) == 1;
}

static int write_by_mprotect(struct rp_code *code, unsigned char *at, unsigned char byte)
{
	/* Change the whole segment: a mapping that was split would not be merged again. */
	if (!code->open && mprotect((void *)code->begin, code->end - code->begin,
				    code->protection | PROT_WRITE) != 0)
		return -errno;
	code->open = true;
	store(at, byte);
	return 0;
}

bool rp_code_close(struct rp_code *code)
{
	if (code->open && mprotect((void *)code->begin, code->end - code->begin,
				   code->protection) == 0)
		code->open = false;
	return !code->open;
}

int rp_code_write(struct rp_code_change *change, struct rp_code *code, unsigned char *at,
		  unsigned char byte)
{
	int ret = write_by_proc(change, at, byte) ? 0 : write_by_mprotect(code, at, byte);

	if (ret == 0)
		change->written = true;
	return ret;
}

static int membarrier(int command)
{
	return syscall(__NR_membarrier, command, 0, 0) == 0 ? 0 : -errno;
}

/* The makers to whose processors AMD's manual applies; Hygon's are derived from AMD's. */
bool rp_code_is_promised_by(const char maker[12])
{
	return memcmp(maker, "AuthenticAMD", 12) == 0 || memcmp(maker, "HygonGenuine", 12) == 0;
}

void rp_code_end(struct rp_code_change *change)
{
	if (change->memory >= 0 && rp_file_is(change->memory, &change->file))
		close(change->memory);
	/* If it fails, x86's caches are coherent, so other threads execute the new code soon. */
	if (change->written)
		(void)membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE);
	*change = (struct rp_code_change){ .memory = -1 };
}

#if defined(__x86_64__)
/* code_trial_x86_64.S: returns 1 while its second instruction is a jump, 0 while it is a test. */
__attribute__((visibility("hidden"))) int rp_code_trial(void);
extern __attribute__((visibility("hidden"))) unsigned char rp_code_trial_site[];

bool rp_code_is_promised(void)
{
	unsigned int most, maker[3];

	return __get_cpuid(0, &most, &maker[0], &maker[2], &maker[1]) &&
	       rp_code_is_promised_by((const char *)maker);
}

int rp_code_prepare(void)
{
	return membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE);
}

int rp_code_try(void)
{
	struct rp_code_change change = { .memory = -1, .asked = true };	/* skip /proc */
	struct rp_code code;
	bool passes;
	int ret;

	if (rp_code_find(rp_code_trial_site, &code) != 0 || rp_code_trial() != 1)
		return -EOPNOTSUPP;
	ret = rp_code_write(&change, &code, rp_code_trial_site, RP_CODE_PASS);
	if (ret != 0)
		return ret;
	rp_code_end(&change);
	passes = rp_code_trial() == 0;
	(void)rp_code_close(&code);
	ret = rp_code_write(&change, &code, rp_code_trial_site, RP_CODE_JUMP);
	rp_code_end(&change);
	if (!rp_code_close(&code) && ret == 0)
		ret = -EACCES;
	return ret != 0 || (passes && rp_code_trial() == 1) ? ret : -EOPNOTSUPP;
}
#else
bool rp_code_is_promised(void)
{
	return false;
}

int rp_code_prepare(void)
{
	return -EOPNOTSUPP;
}

int rp_code_try(void)
{
	return -EOPNOTSUPP;
}
#endif
