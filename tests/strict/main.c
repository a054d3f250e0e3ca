/* SPDX-License-Identifier: MIT */
/*
 * Read a trace strictly and print its content as JSON.
 *
 * usage: strict [--recovered] [--merged] [--cut] [--kernel]
 *	[--serials PROVIDER/EVENT[:WRITER]:SERIAL] TRACE
 *
 * --serials names an event and its integer fields. Without WRITER, each thread is a writer. Exit
 * status: 0; 1 for a fault in the trace, which is reported on stderr; 2 for wrong usage.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "strict.h"

#define KINDS_MAX 1024u

struct kinds {
	struct kind {
		char name[256];
		uint64_t events;
	} kind[KINDS_MAX];
	size_t count;
};

static void count_kind(const struct strict_event *event, void *data)
{
	struct kinds *kinds = data;
	char name[256];
	size_t i = 0;

	snprintf(name, sizeof(name), "%s/%s", event->provider, event->name);
	while (i < kinds->count && strcmp(kinds->kind[i].name, name) != 0)
		i++;
	if (i == KINDS_MAX)
		return;
	if (i == kinds->count)
		strcpy(kinds->kind[kinds->count++].name, name);
	kinds->kind[i].events++;
}

static void print_text(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\' || *text < ' ')
			printf("\\u%04x", *text);
		else
			putchar(*text);
	}
	putchar('"');
}

static void print_writers(const struct strict_result *result)
{
	printf(" \"writers\": {");
	for (uint32_t i = 0; i < result->writer_count; i++) {
		const struct strict_writer *writer = &result->writers[i];

		printf("%s\"%" PRIu64 "\": {\"first\": %" PRIu64 ", \"last\": %" PRIu64
		       ", \"count\": %" PRIu64 "}", i ? ", " : "", writer->id, writer->first,
		       writer->last, writer->count);
	}
	printf("},\n \"missing\": %" PRIu64 ",\n", strict_missing(result));
}

static void print_result(const struct strict_result *result, const struct kinds *kinds)
{
	printf("{\"kinds\": {");
	for (size_t i = 0; i < kinds->count; i++) {
		printf(i ? ", " : "");
		print_text(kinds->kind[i].name);
		printf(": %" PRIu64, kinds->kind[i].events);
	}
	printf("},\n \"lost_by\": {");
	for (unsigned int i = 0; i < STRICT_REASONS; i++)
		printf("%s\"%s\": %" PRIu64, i ? ", " : "", strict_reasons[i], result->lost_by[i]);
	printf("},\n");
	print_writers(result);
	printf(" \"events\": %" PRIu64 ", \"lost_reported\": %" PRIu64
	       ", \"lost_in_points\": %" PRIu64 ", \"lost_in_gaps\": %" PRIu64
	       ",\n \"points\": %" PRIu64 ", \"threads\": %" PRIu64
	       ", \"cut_payloads\": %" PRIu64 ", \"window\": [%" PRIu64 ", %" PRIu64
	       "], \"complete\": %s}\n", result->events, result->lost_reported,
	       result->lost_in_points, result->lost_in_gaps, result->points, result->threads,
	       result->cut_payloads, result->window_from_ns, result->window_to_ns,
	       result->complete ? "true" : "false");
}

/* Split PROVIDER/EVENT[:WRITER]:SERIAL into its parts. */
static bool parse_serials(char *text, struct strict_serials *ret_serials)
{
	char *event = strchr(text, '/'), *first = event ? strchr(event, ':') : NULL;
	char *second = first ? strchr(first + 1, ':') : NULL;

	if (!first)
		return false;
	*event++ = *first++ = '\0';
	if (second)
		*second++ = '\0';
	*ret_serials = (struct strict_serials){
		text, event, second ? first : NULL, second ? second : first,
	};
	return true;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "recovered", no_argument, NULL, STRICT_RECOVERED },
		{ "merged", no_argument, NULL, STRICT_MERGED },
		{ "cut", no_argument, NULL, STRICT_CUT },
		{ "kernel", no_argument, NULL, STRICT_KERNEL },
		{ "serials", required_argument, NULL, 's' },
		{ NULL, 0, NULL, 0 },
	};
	static struct strict_result result;
	static struct kinds kinds;
	struct strict_serials serials = { NULL, NULL, NULL, NULL };
	unsigned int flags = 0;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == '?' || (option == 's' && !parse_serials(optarg, &serials)))
			return 2;
		if (option != 's')
			flags |= (unsigned int)option;
	}
	if (optind + 1 != argc)
		return 2;
	if (!strict_read(argv[optind], flags, serials.provider ? &serials : NULL, count_kind,
			 &kinds, &result)) {
		fprintf(stderr, "%s: %s\n", argv[optind], result.fault);
		return 1;
	}
	print_result(&result, &kinds);
	return 0;
}
