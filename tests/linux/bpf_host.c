/* SPDX-License-Identifier: MIT */
/*
 * A program for `ringpipe bpf`: prints its pid, then executes the lines of its standard input, and
 * answers each with a line. bpf_test.py knows the values.
 *
 *	write N		N each of `numbers` and `texts`
 *	rate N M	N of `numbers`, M a second
 *	large		the largest payload, and the largest with a field after it
 *	trip		an event with activity ids
 *	json N		N JSON texts of the level Warning
 *	broken		text that is neither UTF-8 nor UTF-16
 *	await		waits until a session wants `texts`
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

RP_STRUCT(point, RP_I32(x), RP_I32(y));

RP_PROVIDER(host, "Bpf-Host");
RP_EVENT(host, numbers, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U64(serial), RP_I32(level),
	 RP_F64(real), RP_F32(single), RP_BOOL(odd), RP_U16(small));
RP_EVENT(host, texts, 2, RP_LEVEL_INFORMATIONAL, 0x1, RP_STRING(name), RP_STRING16(wide),
	 RP_BLOB(blob), RP_ARRAY(U32, list), RP_STRUCT_FIELD(point, at),
	 RP_STRUCT_ARRAY(point, path), RP_I64(mark));
RP_EVENT(host, large, 3, RP_LEVEL_INFORMATIONAL, 0x1, RP_BLOB(blob), RP_U32(behind));
RP_EVENT(host, trip, 4, RP_LEVEL_INFORMATIONAL, 0x1, RP_U8(mark));
RP_JSON_EVENTS(host);

static void write_numbers(uint64_t i)
{
	host_numbers(i, (int32_t)(i % 1000) - 300, (double)i * 0.5 - 10, -(float)(i % 7) * 0.25f,
		     i & 1, (uint16_t)i);
}

static void write_texts(uint64_t i)
{
	static const rp_char16 wide[] = u"w\u00efde \u20ac";
	const struct point at = { (int32_t)i, -(int32_t)i }, path[] = { { 1, 2 }, { 3, 4 } };
	const uint32_t list[] = { 7, 8, 9 };
	char name[80];

	snprintf(name, sizeof(name), "customer %d", (int)(i % 5));
	if (i % 5 == 4)
		memset(name, 'x', 79), name[79] = '\0';
	host_texts(name, wide, "\x01\x02\xff", i % 4, list, i % 3 + 1, &at, path, i % 2 + 1,
		   (int64_t)i - 50);
}

static void write_json(uint64_t count)
{
	char text[128];

	for (uint64_t i = 0; i < count; i++) {
		snprintf(text, sizeof(text), "{\"order\":%llu,\"name\":\"\u20ac\",\"none\":null,"
			 "\"at\":{\"rows\":[[1,2],[3]]}}",
			 (unsigned long long)i);
		RP_JSON(host, RP_LEVEL_WARNING, i % 2 ? "odd" : "even", text);
	}
}

/* Writes one part per millisecond; a late part does not delay the later ones. */
static void write_at_rate(uint64_t count, uint64_t per_second)
{
	uint64_t portion = per_second / 1000 ? per_second / 1000 : 1, done = 0;
	struct timespec next;

	clock_gettime(CLOCK_MONOTONIC, &next);
	while (done < count) {
		for (uint64_t i = 0; i < portion && done < count; i++)
			write_numbers(done++);
		next.tv_nsec += 1000000;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
}

static void write_large(void)
{
	static uint8_t blob[RP_PAYLOAD_MAX - 6];

	host_large(blob, sizeof(blob), 1);
	host_large(blob, 100, 2);
}

static void write_broken(void)
{
	static const rp_char16 wide[] = { 0xd800, 'a', 0 };
	const struct point at = { 0, 0 };

	host_texts("\xff" "a\xe2\x82" "b\xc3\xa9\xed\xa0\x80\xc0\xf5", wide, "", 0, NULL, 0, &at,
		   NULL, 0, 0);
}

static void make_trip(void)
{
	const struct rp_activity here = {
		.id = { { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 } },
		.related = { { 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1 } },
	};
	struct rp_activity before;

	rp_activity_get(&before);
	rp_activity_set(&here);
	host_trip(5);
	rp_activity_set(&before);
}

int main(void)
{
	unsigned long long count, rate;
	char line[128];

	printf("%d\n", getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "write %llu", &count) == 1) {
			for (uint64_t i = 0; i < count; i++) {
				write_numbers(i);
				write_texts(i);
			}
		} else if (sscanf(line, "rate %llu %llu", &count, &rate) == 2) {
			write_at_rate(count, rate);
		} else if (sscanf(line, "json %llu", &count) == 1) {
			write_json(count);
		} else if (strcmp(line, "large\n") == 0) {
			write_large();
		} else if (strcmp(line, "trip\n") == 0) {
			make_trip();
		} else if (strcmp(line, "broken\n") == 0) {
			write_broken();
		} else if (strcmp(line, "await\n") == 0) {
			while (!host_texts_enabled())
				usleep(1000);
		}
		puts("done");
		fflush(stdout);
	}
	return 0;
}
