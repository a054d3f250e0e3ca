/* SPDX-License-Identifier: MIT */
/* The attributes that a process publishes, as ringpipe record reads them. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/ringpipe-record/published_context.h"

#define PAGE 4096u
#define TEXT_BYTES 32u

/* A message that is being written. */
struct message {
	uint8_t bytes[1u << 20];
	size_t size;
};

static struct message message, part, value;

static void put(struct message *to, uint8_t field, const void *bytes, size_t size)
{
	size_t left = size;

	to->bytes[to->size++] = (uint8_t)(field << 3 | 2);
	for (; left >= 0x80; left >>= 7)
		to->bytes[to->size++] = (uint8_t)(left | 0x80);
	to->bytes[to->size++] = (uint8_t)left;
	memcpy(to->bytes + to->size, bytes, size);
	to->size += size;
}

/* Put an attribute, whose value is `value`, into the resource. */
static void put_attribute(const char *key, size_t key_bytes)
{
	struct message attribute = { .size = 0 };

	part.size = 0;
	put(&part, 1, key, key_bytes);
	put(&part, 2, value.bytes, value.size);
	put(&attribute, 1, part.bytes, part.size);
	put(&message, 1, attribute.bytes, attribute.size);
}

static void put_text(const char *key, const char *text)
{
	value.size = 0;
	put(&value, 1, text, strlen(text));
	put_attribute(key, strlen(key));
}

static void put_raw(const char *key, const char *bytes, size_t size)
{
	memcpy(value.bytes, bytes, size);
	value.size = size;
	put_attribute(key, strlen(key));
}

static char found[1u << 17];
static size_t found_count;

static int note(void *user, const struct rp_attribute *attribute)
{
	const char *key = attribute->key, *text = attribute->value;

	(void)user;
	cr_assert(*key && strlen(key) <= TEXT_BYTES && strlen(text) <= TEXT_BYTES);
	if (strlen(found) + strlen(key) + strlen(text) + 3 < sizeof(found))
		sprintf(found + strlen(found), "%s=%s%s;", key, text,
			attribute->type == RP_ATTRIBUTE_TEXT ? "" :
			attribute->type == RP_ATTRIBUTE_BOOL ? "?" :
			attribute->type == RP_ATTRIBUTE_INTEGER ? "#" : "~");
	found_count++;
	return 0;
}

static int visit(const void *bytes, size_t size)
{
	const struct rp_published_context context = { .message = (uint8_t *)bytes, .bytes = size };

	*found = '\0';
	found_count = 0;
	return rp_published_context_visit(&context, TEXT_BYTES, note, NULL);
}

static void prepare(void)
{
	message.size = 0;
}

TestSuite(record_published_context, .init = prepare);

Test(record_published_context, attributes_are_texts_numbers_and_truth_values)
{
	put_text("service.name", "shop");
	put_raw("n", "\x18\x05", 2);
	put_raw("minus", "\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11);
	put_raw("yes", "\x10\x01", 2);
	put_raw("half", "\x21\0\0\0\0\0\0\xe0\x3f", 9);
	put_raw("list", "\x2a\0", 2);
	put_raw("nothing", "", 0);
	cr_assert(visit(message.bytes, message.size) == 0);
	cr_assert_str_eq(found, "service.name=shop;n=5#;minus=-1#;yes=true?;half=0.5~;");
}

Test(record_published_context, the_first_value_of_a_key_counts)
{
	put_text("k", "first");
	put_text("k", "second");
	put_text("", "no key");
	cr_assert(visit(message.bytes, message.size) == 0);
	cr_assert_str_eq(found, "k=first;");
}

Test(record_published_context, texts_are_cut_between_characters_and_have_valid_utf8)
{
	put_text("k", "0123456789012345678901234567890\xc3\xa9");
	put_text("bad", "a\xff\xc3" "b");
	put_text("end\xc3", "x");
	cr_assert(visit(message.bytes, message.size) == 0);
	cr_assert_str_eq(found, "k=0123456789012345678901234567890;bad=a??b;end?=x;");
}

Test(record_published_context, ten_thousand_attributes_are_limited)
{
	char key[16];

	for (int i = 0; i < 10000; i++) {
		sprintf(key, "k%d", i);
		put_text(key, "v");
	}
	cr_assert(visit(message.bytes, message.size) == 0);
	cr_assert(found_count == RP_PUBLISHED_ATTRIBUTES_MAX);
}

Test(record_published_context, long_texts_do_not_reduce_the_number_of_attributes)
{
	const struct rp_published_context context = { .message = message.bytes };
	struct rp_published_context whole = context;
	static char text[4000];
	char key[16];

	memset(text, 'x', sizeof(text) - 1);
	for (int i = 0; i < 100; i++) {
		sprintf(key, "k%d", i);
		put_text(key, text);
	}
	whole.bytes = message.size;
	found_count = 0;
	cr_assert(rp_published_context_visit(&whole, TEXT_BYTES, note, NULL) == 0);
	cr_assert(found_count == 100);
}

Test(record_published_context, every_cut_of_a_message_is_damage_or_a_shorter_message)
{
	put_text("service.name", "shop");
	put_text("host.name", "one");
	for (size_t size = 0; size < message.size; size++) {
		/* An exact copy, so that a sanitizer sees each access beyond it. */
		uint8_t *copy = malloc(size ? size : 1);
		int ret;

		memcpy(copy, message.bytes, size);
		ret = visit(copy, size);
		cr_assert(ret == 0 || ret == -EBADMSG);
		cr_assert((ret == 0) == (size == 0 || !strcmp(found, "service.name=shop;")) ||
			  ret == -EBADMSG);
		free(copy);
	}
}

Test(record_published_context, any_bytes_are_read_without_a_crash)
{
	uint64_t random = 88172645463325252u;

	put_text("service.name", "shop");
	put_raw("n", "\x18\x05", 2);
	for (int round = 0; round < 20000; round++) {
		uint8_t *copy = malloc(message.size);
		int ret;

		memcpy(copy, message.bytes, message.size);
		for (int i = 0; i < 3; i++) {
			random ^= random << 13, random ^= random >> 7, random ^= random << 17;
			copy[random % message.size] = (uint8_t)(random >> 32);
		}
		ret = visit(copy, message.size);
		cr_assert(ret == 0 || ret == -EBADMSG);
		free(copy);
	}
}

struct header {
	char signature[8];
	uint32_t version, bytes;
	uint64_t published_ns, address;
};

static struct header *publish(size_t size)
{
	int fd = memfd_create("OTEL_CTX", MFD_CLOEXEC);
	struct header *header;

	cr_assert(fd >= 0 && ftruncate(fd, PAGE) == 0);
	header = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	close(fd);
	*header = (struct header){
		.signature = "OTEL_CT", .version = 2, .bytes = (uint32_t)size, .published_ns = 7,
		.address = (uintptr_t)message.bytes,
	};
	header->signature[7] = 'X';
	return header;
}

static int read_own(uint64_t known_ns)
{
	struct rp_published_context context;
	int ret = rp_published_context_read(getpid(), known_ns, &context);

	if (ret)
		return ret;
	ret = visit(context.message, context.bytes);
	free(context.message);
	return ret;
}

Test(record_published_context, what_a_process_publishes_is_read_once)
{
	put_text("service.name", "shop");
	cr_assert(read_own(0) == -ENOENT);
	(void)publish(message.size);
	cr_assert(read_own(0) == 0);
	cr_assert_str_eq(found, "service.name=shop;");
	cr_assert(read_own(7) == -EALREADY);
	cr_assert(read_own(6) == 0);
}

Test(record_published_context, a_header_that_lies_is_refused)
{
	struct header *header, good;

	put_text("service.name", "shop");
	header = publish(message.size);
	good = *header;
	header->version = 3;
	cr_assert(read_own(0) == -EBADMSG);
	*header = good;
	header->bytes = UINT32_MAX;
	cr_assert(read_own(0) == -EBADMSG);
	*header = good;
	header->address = 16;
	cr_assert(read_own(0) == -EAGAIN);
	header->address = UINT64_MAX - 4;
	cr_assert(read_own(0) == -EAGAIN);
	*header = good;
	header->published_ns = 0;
	cr_assert(read_own(0) == -EAGAIN);
	*header = good;
	header->signature[0] = 'x';
	cr_assert(read_own(0) == -ENOENT);
	*header = good;
	mprotect(header, PAGE, PROT_NONE);
	cr_assert(read_own(0) == -ENOENT);
}

Test(record_published_context, a_process_that_has_ended_publishes_nothing)
{
	struct rp_published_context context;
	pid_t child = fork();

	if (child == 0)
		_exit(0);
	cr_assert(child > 0 && waitpid(child, NULL, 0) == child);
	cr_assert(rp_published_context_read(child, 0, &context) == -ENOENT);
}

Test(record_published_context, a_file_whose_name_ends_like_that_of_a_context_is_none)
{
	char folder[] = "/tmp/rp-context-XXXXXX", path[64];
	struct header *header = publish(4), *copy;
	int fd;

	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/a [anon:OTEL_CTX]", folder);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	cr_assert(fd >= 0 && ftruncate(fd, PAGE) == 0);
	copy = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	cr_assert(copy != MAP_FAILED);
	*copy = *header;
	munmap(header, PAGE);
	cr_expect(read_own(0) == -ENOENT);
	unlink(path);
	cr_expect(read_own(0) == -ENOENT);
	rmdir(folder);
}

/* Map a context whose page userfaultfd(2) should provide, and never does. NULL: not permitted. */
static struct header *publish_missing(int *ret_fault_fd)
{
	struct uffdio_api api = { .api = UFFD_API };
	const int fault_fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	const int fd = memfd_create("OTEL_CTX", MFD_CLOEXEC);
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	void *memory;

	cr_assert(fd >= 0 && ftruncate(fd, PAGE) == 0);
	memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	cr_assert(memory != MAP_FAILED);
	range.range.start = (uintptr_t)memory;
	range.range.len = PAGE;
	*ret_fault_fd = fault_fd;
	return fault_fd >= 0 && ioctl(fault_fd, UFFDIO_API, &api) == 0 &&
	       ioctl(fault_fd, UFFDIO_REGISTER, &range) == 0 ? memory : NULL;
}

Test(record_published_context, a_process_whose_memory_never_arrives_costs_one_read)
{
	int fault_fd, ret;
	struct header *header = publish_missing(&fault_fd);
	struct rp_published_context context;
	pid_t child;

	if (!header)
		cr_skip("userfaultfd: %s", strerror(errno));
	for (int i = 0; i < 1000; i++)
		cr_assert(read_own(0) == -ENOENT);
	/* Another process is read as before. */
	munmap(header, PAGE);
	put_text("service.name", "shop");
	(void)publish(message.size);
	child = fork();
	if (child == 0) {
		pause();
		_exit(0);
	}
	cr_assert(child > 0);
	ret = rp_published_context_read(child, 0, &context);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	cr_assert(ret == 0);
	free(context.message);
	/* LeakSanitizer waits for all threads, and this ends the wait of the thread left behind. */
	close(fault_fd);
}
