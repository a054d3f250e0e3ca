/* SPDX-License-Identifier: MIT */
#include "export/user_words.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>

/* From <linux/user_events.h>, which Linux 6.4 introduced. */
struct user_reg {
	uint32_t size;
	uint8_t enable_bit;
	uint8_t enable_size;
	uint16_t flags;
	uint64_t enable_addr;
	uint64_t name_args;
	uint32_t write_index;
} __attribute__((packed));

struct user_unreg {
	uint32_t size;
	uint8_t disable_bit;
	uint8_t reserved;
	uint16_t reserved2;
	uint64_t disable_addr;
} __attribute__((packed));

#define USER_REG _IOWR('*', 0, struct user_reg *)
#define USER_UNREG _IOW('*', 2, struct user_unreg *)

int rp_user_word_register(int fd, const char *command, uint64_t *word, uint64_t bit,
			  uint32_t *ret_write_index)
{
	struct user_reg reg = {
		.size = sizeof(reg),
		.enable_bit = (uint8_t)__builtin_ctzll(bit),
		.enable_size = sizeof(*word),
		.enable_addr = (uintptr_t)word,
		.name_args = (uintptr_t)command,
	};

	if (ioctl(fd, USER_REG, &reg) < 0)
		return errno == ENOTTY ? -EOPNOTSUPP : -errno;
	*ret_write_index = reg.write_index;
	return 0;
}

void rp_user_word_unregister(int fd, uint64_t *word, uint64_t bit)
{
	struct user_unreg unreg = {
		.size = sizeof(unreg),
		.disable_bit = (uint8_t)__builtin_ctzll(bit),
		.disable_addr = (uintptr_t)word,
	};

	ioctl(fd, USER_UNREG, &unreg);
}

int rp_user_words_open(void)
{
	int fd = open("/sys/kernel/tracing/user_events_data", O_RDWR | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		fd = open("/sys/kernel/debug/tracing/user_events_data", O_RDWR | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}
