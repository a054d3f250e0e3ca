/* SPDX-License-Identifier: MIT */
/*
 * probes_host: writes events with the values that it reads, one line of words per command, and
 * answers each command with a line. "fork" creates a child, which executes the commands after the
 * word "child".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attached_component.h"
#include "probes.h"

#define WORDS_MAX 16

static struct rp_session *session;
static FILE *to_child, *from_child;
static struct rp_event *made;			/* at run time */
static char last_news[64] = "none";		/* from the callback of Probes-Host */

/* A separate buffer for each argument, since several are used simultaneously. */
struct bytes {
	size_t size;
	_Alignas(8) unsigned char at[512];
};

/* "-" is NULL; else pairs of hexadecimal digits. */
static const void *read_bytes(const char *text, struct bytes *bytes)
{
	unsigned int byte;

	memset(bytes, 0, sizeof(*bytes));
	if (strcmp(text, "-") == 0)
		return NULL;
	for (; bytes->size < sizeof(bytes->at) && sscanf(text, "%2x", &byte) == 1; text += 2)
		bytes->at[bytes->size++] = (unsigned char)byte;
	return bytes->at;
}

static float f32_of(uint64_t bits)
{
	uint32_t low = (uint32_t)bits;
	float f32;

	memcpy(&f32, &low, sizeof(f32));
	return f32;
}

static double f64_of(uint64_t bits)
{
	double f64;

	memcpy(&f64, &bits, sizeof(f64));
	return f64;
}

static int fire_references(char *const *texts)
{
	static struct bytes text, text16, guid, blob, list, point, points;
	const void *text_at = read_bytes(texts[0], &text);
	const void *text16_at = read_bytes(texts[1], &text16);
	const void *guid_at = read_bytes(texts[2], &guid);
	const void *blob_at = read_bytes(texts[3], &blob);
	const void *list_at = read_bytes(texts[4], &list);
	const void *point_at = read_bytes(texts[5], &point);
	const void *points_at = read_bytes(texts[6], &points);

	return probes_references(text_at, text16_at, guid_at, blob_at, blob.size, list_at,
				 list.size / sizeof(uint32_t), point_at, points_at,
				 points.size / sizeof(struct probes_point));
}

/* A stack walk finds this function as the caller, since the call below is not a tail call. */
static __attribute__((noinline)) int fire_bare(void)
{
	int ret = probes_bare();

	__asm__ volatile("" : "+r" (ret));
	return ret;
}

static int fire(const char *event, const uint64_t *w)
{
	if (strcmp(event, "few") == 0)
		return probes_few((int8_t)w[0], (uint8_t)w[1], (int16_t)w[2], (uint16_t)w[3],
				  (int32_t)w[4], (uint32_t)w[5]);
	if (strcmp(event, "numbers") == 0)
		return probes_numbers(w[0], (char)w[1], (int8_t)w[2], (uint8_t)w[3], (int16_t)w[4],
				      (uint16_t)w[5], (int32_t)w[6], (uint32_t)w[7],
				      (int64_t)w[8], w[9], f32_of(w[10]), f64_of(w[11]),
				      (const void *)w[12], (int64_t)w[13]);
	if (strcmp(event, "reals") == 0)
		return probes_reals(f32_of(w[0]), f64_of(w[1]), w[2], (char)w[3],
				    (const void *)w[4], (int64_t)w[5], (int64_t)w[6], w[7],
				    (int8_t)w[8], (int16_t)w[9], (int32_t)w[10], (uint8_t)w[11]);
	if (strcmp(event, "bare") == 0)
		return fire_bare();
	if (strcmp(event, "wide") == 0)
		return probes_wide(w[0], w[0] + 1, w[0] + 2, w[0] + 3, w[0] + 4, w[0] + 5, w[0] + 6,
				   w[0] + 7, w[0] + 8, w[0] + 9, w[0] + 10, w[0] + 11, w[0] + 12,
				   w[0] + 13, w[0] + 14, w[0] + 15, w[0] + 16, w[0] + 17, w[0] + 18,
				   w[0] + 19, w[0] + 20, w[0] + 21, w[0] + 22, w[0] + 23, w[0] + 24,
				   w[0] + 25, w[0] + 26, w[0] + 27, w[0] + 28, w[0] + 29);
	if (strcmp(event, "shared") == 0)
		return probes_shared((uint32_t)w[0]);
	if (strcmp(event, "library") == 0)
		return library_fires((uint32_t)w[0]);
	return -1;
}

/* Lists the names of the enabled events. */
static void report_enabled(char *answer)
{
	sprintf(answer, "%s%s%s%s%s%s%s%s.", probes_few_enabled() ? "few " : "",
		probes_numbers_enabled() ? "numbers " : "", probes_reals_enabled() ? "reals " : "",
		probes_references_enabled() ? "references " : "",
		probes_bare_enabled() ? "bare " : "", probes_wide_enabled() ? "wide " : "",
		probes_shared_enabled() ? "shared " : "", library_enabled() ? "library " : "");
}

static int start_session(const char *path)
{
	struct rp_session_provider provider = {
		.size = sizeof(provider), .name = "Probes-Host", .keywords = UINT64_MAX,
		.level = RP_LEVEL_VERBOSE,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &provider, .provider_count = 1,
		.output_path = path,
	};

	return rp_session_start(&options, &session);
}

static void stop_session(char *answer)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	int ret = rp_session_stop(session, &stats);

	session = NULL;
	sprintf(answer, "%d %llu %llu", ret, (unsigned long long)stats.delivered,
		(unsigned long long)stats.lost);
}

static int make_event(void)
{
	static const struct rp_field fields[] = {
		{ .name = "number", .type = RP_TYPE_U32 },
		{ .name = "text", .type = RP_TYPE_STRING },
	};
	struct rp_event_decl decl = {
		.size = sizeof(decl), .id = 1, .name = "made", .fields = fields, .field_count = 2,
		.level = RP_LEVEL_INFORMATIONAL,
	};
	struct rp_provider *provider;
	int ret = rp_provider_create("Made-Up", NULL, NULL, &provider);

	return ret ? ret : rp_event_create(provider, &decl, &made);
}

/* Each word is a part of the payload. */
static int write_made(char *const *texts, int count)
{
	static struct bytes bytes[WORDS_MAX];
	struct rp_part parts[WORDS_MAX];

	for (int i = 0; i < count; i++) {
		parts[i].base = read_bytes(texts[i], &bytes[i]);
		parts[i].size_bytes = bytes[i].size;
	}
	return rp_event_write(made, parts, (unsigned int)count);
}

/* Writes `count` parts of 512 bytes; each contains its number. */
static int write_long(unsigned int count)
{
	static unsigned char bytes[WORDS_MAX][512];
	struct rp_part parts[WORDS_MAX];

	for (unsigned int i = 0; i < count; i++) {
		memset(bytes[i], (int)i, sizeof(bytes[i]));
		parts[i] = (struct rp_part){ bytes[i], sizeof(bytes[i]) };
	}
	return rp_event_write(made, parts, count);
}

static void hear(struct rp_provider *provider, const struct rp_provider_state *state, void *data)
{
	(void)provider;
	(void)data;
	snprintf(last_news, sizeof(last_news), "%d %d %d %llx", state->source_enabled,
		 state->enabled, state->level, (unsigned long long)state->keywords);
}

static int add_traced(const struct rp_traced *traced, void *data)
{
	char *answer = data;

	sprintf(answer + strlen(answer), "%s:%s=%u ", traced->provider, traced->event,
		traced->tracers);
	return 0;
}

static int add_row(const struct rp_enabled *enabled, void *data)
{
	char *answer = data;

	if (enabled->session_id)
		sprintf(answer + strlen(answer), "%s=%u ", enabled->session_name,
			enabled->event_count);
	return 0;
}

/* Return: the number of static-key sites that are jumps. */
static unsigned int count_jumps(void)
{
	unsigned int jumps = 0;

	for (const struct rp_key *key = __start_rp_keys; key < __stop_rp_keys; key++)
		jumps += *((const volatile unsigned char *)&key->site + key->site) == 0xe9;
	return jumps;
}

static int serve(FILE *input, FILE *output);

static int make_child(void)
{
	int to[2], from[2];
	pid_t child;

	if (pipe(to) != 0 || pipe(from) != 0)
		return -1;
	child = fork();
	if (child == 0) {
		close(to[1]);
		close(from[0]);
		_exit(serve(fdopen(to[0], "r"), fdopen(from[1], "w")));
	}
	close(to[0]);
	close(from[1]);
	to_child = fdopen(to[1], "w");
	from_child = fdopen(from[0], "r");
	return child;
}

static void ask_child(const char *line, char *answer, size_t size)
{
	fprintf(to_child, "%s\n", line);
	fflush(to_child);
	if (!fgets(answer, (int)size, from_child))
		strcpy(answer, "gone");
	answer[strcspn(answer, "\n")] = '\0';
}

static int end_child(void)
{
	int status;

	fclose(to_child);
	fclose(from_child);
	wait(&status);
	return status;
}

static void obey(char *line, char *answer, size_t size)
{
	char *words[WORDS_MAX] = { NULL }, *rest = NULL;
	uint64_t numbers[WORDS_MAX] = { 0 };
	int count = 0;

	if (strncmp(line, "child ", 6) == 0) {
		ask_child(line + 6, answer, size);
		return;
	}
	for (char *word = strtok_r(line, " ", &rest); word && count < WORDS_MAX;
	     word = strtok_r(NULL, " ", &rest)) {
		if (count > 0)
			numbers[count - 1] = strtoull(word, NULL, 16);
		words[count++] = word;
	}
	if (strcmp(words[0], "enabled") == 0)
		report_enabled(answer);
	else if (strcmp(words[0], "jumps") == 0)
		sprintf(answer, "%u", count_jumps());
	else if (strcmp(words[0], "session") == 0)
		sprintf(answer, "%d", start_session(words[1]));
	else if (strcmp(words[0], "stop") == 0)
		stop_session(answer);
	else if (strcmp(words[0], "fork") == 0)
		sprintf(answer, "%d", make_child());
	else if (strcmp(words[0], "wait") == 0)
		sprintf(answer, "%d", end_child());
	else if (strcmp(words[0], "create") == 0)
		sprintf(answer, "%d", make_event());
	else if (strcmp(words[0], "made") == 0)
		sprintf(answer, "%d", write_made(&words[1], count - 1));
	else if (strcmp(words[0], "long") == 0)
		sprintf(answer, "%d", write_long((unsigned int)numbers[0]));
	else if (strcmp(words[0], "wanted") == 0)
		sprintf(answer, "%d", rp_event_enabled(made));
	else if (strcmp(words[0], "watch") == 0)
		sprintf(answer, "%d", rp_tracers_watch((uint32_t)numbers[0]));
	else if (strcmp(words[0], "hear") == 0)
		sprintf(answer, "%d", rp_provider_set_callback(probes_provider(), hear, NULL));
	else if (strcmp(words[0], "news") == 0)
		strcpy(answer, last_news);
	else if (strcmp(words[0], "attach") == 0)
		sprintf(answer, "%d", component_attach(probes_provider()));
	else if (strcmp(words[0], "component") == 0)
		component_print(answer);
	else if (strcmp(words[0], "list") == 0)
		(void)(rp_enabled_list(add_row, answer) || rp_traced_list(add_traced, answer));
	else if (strcmp(words[0], "references") == 0)
		sprintf(answer, "%d", fire_references(&words[1]));
	else
		sprintf(answer, "%d", fire(words[0], numbers));
}

static int serve(FILE *input, FILE *output)
{
	static char line[8192];

	while (fgets(line, sizeof(line), input)) {
		static char answer[1024];

		memset(answer, 0, sizeof(answer));
		line[strcspn(line, "\n")] = '\0';
		obey(line, answer, sizeof(answer));
		fprintf(output, "%s\n", answer);
		fflush(output);
	}
	return 0;
}

int main(void)
{
	return serve(stdin, stdout);
}
