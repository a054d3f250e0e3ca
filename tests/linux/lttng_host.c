/* SPDX-License-Identifier: MIT */
/*
 * A program for LTTng: executes the lines of its standard input, answers each with results and a
 * line "done", and ends with its input. lttng_test.py knows the values. Its argument is a plugin
 * with an event.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "attached_component.h"

RP_STRUCT(inner, RP_I16(deep), RP_GUID(mark));
RP_STRUCT(place, RP_U32(aisle), RP_F32(height), RP_STRUCT_FIELD(inner, box));

enum phase { PHASE_BEFORE = -2, PHASE_IN = 0, PHASE_AFTER = 0x7fffffff };
RP_ENUM(phase, PHASE_BEFORE, PHASE_IN, PHASE_AFTER);
RP_STRUCT(step, RP_ENUM_FIELD(phase, phase), RP_U8(number));

RP_PROVIDER(texts, "Lttng-Json");
RP_JSON_EVENTS(texts);

RP_PROVIDER(host, "Lttng-Host");
RP_EVENT(host, tick, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U32(serial), RP_STRING(text), RP_F64(ratio),
	 RP_STRING16(wide), RP_I16(change));
RP_EVENT(host, alarm, 2, RP_LEVEL_ERROR, 0x2, RP_U32(serial));
RP_EVENT(host, detail, 3, RP_LEVEL_VERBOSE, 0x4, RP_U32(serial));
RP_EVENT(host, always, 4, RP_LEVEL_LOG_ALWAYS, 0);
RP_EVENT(host, every, 5, RP_LEVEL_INFORMATIONAL, 0x8, RP_BOOL(yes), RP_CHAR(letter), RP_I8(i8),
	 RP_U8(u8), RP_I16(i16), RP_U16(u16), RP_I32(i32), RP_U32(u32), RP_I64(i64), RP_U64(u64),
	 RP_F32(f32), RP_F64(f64), RP_POINTER(pointer), RP_TIME(time), RP_GUID(guid),
	 RP_STRING(text), RP_STRING16(wide), RP_BLOB(blob), RP_ARRAY(I16, shorts),
	 RP_ARRAY(U64, longs), RP_ARRAY(F64, reals), RP_ARRAY(GUID, guids),
	 RP_STRUCT_FIELD(place, at), RP_STRUCT_ARRAY(place, places), RP_U32(last));

RP_EVENT(host, moved, 6, RP_LEVEL_INFORMATIONAL, 0x10, RP_ENUM_FIELD(phase, from),
	 RP_STRUCT_FIELD(step, to));

static uint64_t state;

static uint64_t any(void)
{
	state ^= state << 13;	/* xorshift */
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static double any_real(void)
{
	return (double)(int64_t)any() / 65536.0;
}

static struct rp_guid any_guid(void)
{
	struct rp_guid guid;

	for (int i = 0; i < 16; i++)
		guid.bytes[i] = (uint8_t)any();
	return guid;
}

static struct place any_place(void)
{
	return (struct place){ (uint32_t)any(), (float)any_real(), { (int16_t)any(), any_guid() } };
}

/* Prints JSON; a real number as its bits. */
static void say_bytes(const char *name, const void *bytes, size_t size)
{
	printf("\"%s\": [", name);
	for (size_t i = 0; i < size; i++)
		printf("%s%u", i ? ", " : "", ((const uint8_t *)bytes)[i]);
	printf("], ");
}

static void say_u64s(const char *name, const void *values, size_t count)
{
	printf("\"%s\": [", name);
	for (size_t i = 0; i < count; i++) {
		uint64_t value;

		memcpy(&value, (const char *)values + 8 * i, sizeof(value));
		printf("%s%" PRIu64, i ? ", " : "", value);
	}
	printf("], ");
}

static void say_place(const char *name, const struct place *place)
{
	printf("\"%s_aisle\": %u, \"%s_height\": %.17g, \"%s_box_deep\": %d, ", name, place->aisle,
	       name, (double)place->height, name, place->box.deep);
	printf("\"%s_box", name);
	printf("_mark\": [");
	for (int i = 0; i < 16; i++)
		printf("%s%u", i ? ", " : "", place->box.mark.bytes[i]);
	printf("], ");
}

static void say_places(const struct place *places, size_t count)
{
	printf("\"places_aisle\": [");
	for (size_t i = 0; i < count; i++)
		printf("%s%u", i ? ", " : "", places[i].aisle);
	printf("], \"places_height\": [");
	for (size_t i = 0; i < count; i++) {
		uint32_t bits;

		memcpy(&bits, &places[i].height, sizeof(bits));
		printf("%s%u", i ? ", " : "", bits);
	}
	printf("], \"places_box_deep\": [");
	for (size_t i = 0; i < count; i++)
		printf("%s%d", i ? ", " : "", places[i].box.deep);
	printf("], \"places_box_mark\": [");
	for (size_t i = 0; i < 16 * count; i++)
		printf("%s%u", i ? ", " : "", places[i / 16].box.mark.bytes[i % 16]);
	printf("], ");
}

/* Writes each type with random values, and prints the values. */
static void write_every(void)
{
	static const char *const texts[] = { "", "plain", "gr\u00fc\u00dfe", "\u20ac 5",
					     "\U0001f600!" };
	static const rp_char16 *const wides[] = { u"", u"plain", u"gr\u00fc\u00dfe", u"\u20ac 5",
						  u"\U0001f600!" };
	unsigned int text = any() % 5, wide = any() % 5;
	size_t blob_bytes = any() % 9, shorts = any() % 5, longs = any() % 5, reals = any() % 5;
	size_t guids = any() % 3, count = any() % 4;
	struct place at = any_place(), places[3] = { any_place(), any_place(), any_place() };
	struct rp_guid guid = any_guid(), several[2] = { any_guid(), any_guid() };
	uint64_t u[10], values[4] = { any(), any(), any(), any() };
	double real = any_real(), numbers[4] = { any_real(), any_real(), any_real(), any_real() };
	float single = (float)any_real();
	int16_t words[4] = { (int16_t)any(), (int16_t)any(), (int16_t)any(), (int16_t)any() };
	uint8_t blob[8];

	for (int i = 0; i < 10; i++)
		u[i] = any();
	memcpy(blob, &u[0], sizeof(blob));
	host_every(u[0] & 1, (char)('a' + u[1] % 26), (int8_t)u[2], (uint8_t)u[3], (int16_t)u[4],
		   (uint16_t)u[5], (int32_t)u[6], (uint32_t)u[7], (int64_t)u[8], u[9], single, real,
		   (void *)(uintptr_t)u[1], (int64_t)u[2], &guid, texts[text], wides[wide], blob,
		   blob_bytes, words, shorts, values, longs, numbers, reals, several, guids, &at,
		   places, count, (uint32_t)u[0]);
	printf("{\"yes\": %d, \"letter\": %d, \"i8\": %d, \"u8\": %u, \"i16\": %d, \"u16\": %u, "
	       "\"i32\": %d, \"u32\": %u, \"i64\": %" PRId64 ", \"u64\": %" PRIu64 ", "
	       "\"f32\": %.17g, \"f64\": %.17g, \"pointer\": %" PRIu64 ", \"time\": %" PRId64 ", ",
	       (int)(u[0] & 1), (int)('a' + u[1] % 26), (int8_t)u[2], (uint8_t)u[3], (int16_t)u[4],
	       (uint16_t)u[5], (int32_t)u[6], (uint32_t)u[7], (int64_t)u[8], u[9], (double)single,
	       real, u[1], (int64_t)u[2]);
	say_bytes("guid", guid.bytes, 16);
	printf("\"text\": \"%s\", \"wide\": \"%s\", ", texts[text], texts[wide]);
	say_bytes("blob", blob, blob_bytes);
	printf("\"shorts\": [");
	for (size_t i = 0; i < shorts; i++)
		printf("%s%d", i ? ", " : "", words[i]);
	printf("], ");
	say_u64s("longs", values, longs);
	say_u64s("reals", numbers, reals);
	say_bytes("guids", several, 16 * guids);
	say_place("at", &at);
	say_places(places, count);
	printf("\"last\": %u}\n", (uint32_t)u[0]);
}

static void write_ticks(uint32_t first, uint32_t count, const char *text)
{
	for (uint32_t i = first; i < first + count; i++)
		host_tick(i, text, i * 0.5, i % 2 ? u"\u00f6dd" : u"even", (int16_t)-i);
}

/*
 * Writes values with and without a name; also in dynamic events, of another width and with odd
 * names.
 */
static void write_moves(void)
{
	static const struct rp_enumerator colours[] = {
		{ "the \"red\" one", 0 }, { "gr\u00fcn", 1 }, { "the last", -1 },
	};
	static const struct rp_enumeration colour = { "colour", colours, 3 };
	static const struct rp_field field = { .name = "colour", .type = RP_TYPE_U64,
					       .enumeration = &colour };
	struct rp_event_decl decl = { .size = sizeof(decl), .id = 1, .name = "painted",
				      .fields = &field, .field_count = 1,
				      .level = RP_LEVEL_INFORMATIONAL };
	const uint64_t values[] = { 0, 1, UINT64_MAX, 2 };
	struct rp_provider *provider;
	struct rp_event *painted;

	host_moved(PHASE_BEFORE, &(struct step){ PHASE_AFTER, 1 });
	host_moved(PHASE_IN, &(struct step){ 5, 2 });
	rp_provider_create("Lttng-Enums", NULL, NULL, &provider);
	rp_event_create(provider, &decl, &painted);
	for (int i = 0; i < 4; i++)
		rp_event_write(painted, &(struct rp_part){ &values[i], sizeof(values[i]) }, 1);
	rp_provider_destroy(provider);
}

static struct rp_provider *maker;
static struct rp_event *made[8];

/* An event with `count` fields of 32 bits, or with one text if `count` is 0. */
static void make_event(unsigned int id, unsigned int count, const char *name)
{
	struct rp_field fields[RP_FIELDS_MAX] = { { .name = "text", .type = RP_TYPE_STRING } };
	struct rp_event_decl decl = { .size = sizeof(decl), .id = id, .name = name,
				      .fields = fields,
				      .field_count = (uint16_t)(count ? count : 1),
				      .level = RP_LEVEL_INFORMATIONAL };
	char names[RP_FIELDS_MAX][16];
	int ret = 0;

	for (unsigned int i = 0; i < count; i++) {
		snprintf(names[i], sizeof(names[i]), "f%u", i);
		fields[i] = (struct rp_field){ .name = names[i], .type = RP_TYPE_U32 };
	}
	if (!maker)
		ret = rp_provider_create("Lttng-Made", NULL, NULL, &maker);
	if (ret == 0)
		ret = rp_event_create(maker, &decl, &made[id]);
	if (ret != 0)
		printf("%s\n", strerror(-ret));
}

/* An event for each level, in a provider whose name exceeds LTTng's limit. */
static void make_levels(void)
{
	static const struct rp_field field = { .name = "text", .type = RP_TYPE_STRING };
	struct rp_event_decl decl = { .size = sizeof(decl), .fields = &field, .field_count = 1 };
	char provider[141] = "Lttng-", name[] = "level0";
	int ret;

	memset(provider + 6, 'p', sizeof(provider) - 7);
	ret = rp_provider_create(provider, NULL, NULL, &maker);
	decl.name = name;
	for (; ret == 0 && decl.level <= RP_LEVEL_VERBOSE; decl.level++, decl.id++, name[5]++)
		ret = rp_event_create(maker, &decl, &made[decl.level]);
	if (ret != 0)
		printf("%s\n", strerror(-ret));
}

/* An event whose fields have names of maximum length; two differ only at their end. */
static void make_names(unsigned int id)
{
	static char names[5][RP_NAME_MAX + 1];
	static const struct rp_field member = { .name = names[3], .type = RP_TYPE_U32 };
	static const struct rp_field fields[] = {
		{ .name = names[0], .type = RP_TYPE_U32 },
		{ .name = names[1], .type = RP_TYPE_U32 },
		{ .name = names[2], .type = RP_TYPE_STRUCT, .members = &member, .member_count = 1 },
		{ .name = names[4], .type = RP_TYPE_ARRAY, .element = RP_TYPE_U16 },
	};
	const struct rp_event_decl decl = { .size = sizeof(decl), .id = id, .name = "names",
					    .fields = fields, .field_count = 4,
					    .level = RP_LEVEL_INFORMATIONAL };
	const uint16_t words[] = { 1, 0, 2, 0, 3, 0, 2, 4, 5 };	/* two in the array */
	struct rp_part part = { words, sizeof(words) };

	for (int i = 0; i < 5; i++)
		memset(names[i], "nnsml"[i], RP_NAME_MAX);
	names[1][RP_NAME_MAX - 1] = 'N';
	if (rp_provider_create("Lttng-Names", NULL, NULL, &maker) != 0 ||
	    rp_event_create(maker, &decl, &made[id]) != 0)
		printf("no event\n");
	else
		rp_event_write(made[id], &part, 1);
}

/* An event with an enumeration whose names have the maximum length. */
static void make_labels(unsigned int id)
{
	static char names[6][RP_NAME_MAX + 1];
	static const struct rp_enumerator values[] = {
		{ names[0], 0 }, { names[1], 1 }, { names[2], 2 }, { names[3], 3 }, { names[4], 4 },
	};
	static const struct rp_enumeration enumeration = { names[5], values, 5 };
	static const struct rp_field field = { .name = "label", .type = RP_TYPE_U8,
					       .enumeration = &enumeration };
	const struct rp_event_decl decl = { .size = sizeof(decl), .id = id, .name = "labelled",
					    .fields = &field, .field_count = 1,
					    .level = RP_LEVEL_INFORMATIONAL };

	for (int i = 0; i < 6; i++)
		memset(names[i], "aa\"\\\ne"[i], RP_NAME_MAX);
	names[1][RP_NAME_MAX - 1] = 'A';
	if (rp_provider_create("Lttng-Labels", NULL, NULL, &maker) != 0 ||
	    rp_event_create(maker, &decl, &made[id]) != 0)
		printf("no event\n");
	for (uint8_t value = 0; made[id] && value < 5; value++)
		rp_event_write(made[id], &(struct rp_part){ &value, 1 }, 1);
}

static void fire(unsigned int id, const char *bytes, size_t size)
{
	struct rp_part part = { bytes, size };

	rp_event_write(made[id], &part, 1);
}

/* Writes a text of `bytes` bytes and a NUL. */
static void fire_long(unsigned int id, size_t bytes)
{
	char *text = calloc(bytes + 1, 1);

	if (!text)
		return;
	memset(text, 'x', bytes);
	fire(id, text, bytes + 1);
	free(text);
}

static void fire_numbers(unsigned int id, uint32_t count)
{
	uint32_t values[RP_FIELDS_MAX];

	for (uint32_t i = 0; i < count; i++)
		values[i] = i * 1000003u;
	fire(id, (const char *)values, 4 * count);
}

/* Makes the thread that polls LTTng's state check it once, after which lttng_shim.c blocks it. */
static void look(void)
{
	int (*shim_look)(void);

	*(void **)&shim_look = dlsym(RTLD_DEFAULT, "lttng_shim_look");
	printf("%d ms\n", shim_look ? shim_look() : -1);
}

static void *plugin;
static const char *plugin_path;

static void write_plugin(uint32_t count)
{
	void (*write)(uint32_t serial);

	*(void **)&write = dlsym(plugin, "plugin_write");
	for (uint32_t i = 0; i < count; i++)
		write(i);
}

static bool is_on(const char *name)
{
	int (*plugin_enabled)(void);

	if (strcmp(name, "tick") == 0)
		return host_tick_enabled();
	if (strcmp(name, "json") == 0)
		return texts_json_informational_enabled();
	if (strcmp(name, "alarm") == 0)
		return host_alarm_enabled();
	if (strcmp(name, "detail") == 0)
		return host_detail_enabled();
	if (strcmp(name, "every") == 0)
		return host_every_enabled();
	if (strcmp(name, "plugin") == 0) {
		*(void **)&plugin_enabled = dlsym(plugin, "plugin_enabled");
		return plugin_enabled();
	}
	return rp_event_enabled(made[atoi(name)]);
}

static void await(const char *name, bool on)
{
	int left;

	for (left = 60000; left && is_on(name) != on; left--)
		poll(NULL, 0, 1);
	if (left == 0)
		printf("still %s\n", on ? "off" : "on");
}

/*
 * Forks a child that writes as soon as LTTng has enabled its event; the parent's session continues.
 */
static void run_child(uint32_t first, uint32_t count)
{
	pid_t child;
	int status;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		if (count)
			await("tick", true);
		write_ticks(first, count, "child");
		fflush(stdout);
		_exit(0);
	}
	waitpid(child, &status, 0);
	if (status != 0)
		printf("the child's status is %d\n", status);
	printf("%d\n", (int)child);
}

static pthread_mutex_t heard_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rp_provider_state heard;

static void hear(struct rp_provider *provider, const struct rp_provider_state *reported, void *data)
{
	(void)provider, (void)data;
	pthread_mutex_lock(&heard_lock);
	heard = *reported;
	pthread_mutex_unlock(&heard_lock);
}

/* Wait until the callback and the component's control() have got the keywords. */
static void say_heard(uint64_t keywords)
{
	char component[40] = "";
	bool there = false;

	for (int left = 60000; left && !there; left--) {
		pthread_mutex_lock(&heard_lock);
		component_print(component);
		there = heard.keywords == keywords && strtoull(component, NULL, 16) == keywords;
		if (there)
			printf("enabled %d level %d component %s\n", heard.enabled, heard.level,
			       component);
		pthread_mutex_unlock(&heard_lock);
		poll(NULL, 0, there ? 0 : 1);
	}
	if (!there)
		printf("keywords %" PRIx64 " component %s\n", heard.keywords, component);
}

static void write_activity(uint32_t serial)
{
	struct rp_activity activity = { { { 0 } }, { { 0 } } };

	for (int i = 0; i < 16; i++) {
		activity.id.bytes[i] = (uint8_t)(0x10 + i);
		activity.related.bytes[i] = (uint8_t)(0xf0 + i);
	}
	rp_activity_set(&activity);
	write_ticks(serial, 1, "activity");
	rp_activity_set(&(struct rp_activity){ { { 0 } }, { { 0 } } });
}

/* Writes in a separate thread and prints the thread's id. */
static void *write_on_thread(void *serial)
{
	printf("%ld\n", (long)syscall(SYS_gettid));
	write_ticks(*(uint32_t *)serial, 1, "thread");
	return NULL;
}

static int list_row(const struct rp_enabled *row, void *data)
{
	(void)data;
	if (row->session_id)
		printf("%s: %s %u %" PRIx64 " %u\n", row->provider, row->session_name,
		       row->event_count, row->keywords, row->level);
	if (row->lost)
		printf("%s: %" PRIu64 " lost\n", row->provider, row->lost);
	return 0;
}

static void obey(const char *command, uint32_t a, uint32_t b, const char *text)
{
	pthread_t thread;

	if (strcmp(command, "every") == 0) {
		state = a;
		for (uint32_t i = 0; i < b; i++)
			write_every();
	} else if (strcmp(command, "moves") == 0) {
		write_moves();
	} else if (strcmp(command, "tick") == 0) {
		write_ticks(a, b, text);
	} else if (strcmp(command, "json") == 0) {
		RP_JSON(texts, RP_LEVEL_INFORMATIONAL, "script",
			"{\"n\": 5, \"wide\": \"\u00f6\"}");
		RP_JSON(texts, RP_LEVEL_ERROR, "script", "no JSON");
	} else if (strcmp(command, "invalid") == 0) {
		write_ticks(a, 1, "\xff" "a\xe2\x82" "b\xc3\xa9\xed\xa0\x80");
	} else if (strcmp(command, "levels") == 0) {
		host_always();
		host_alarm(a);
		write_ticks(a, 1, "levels");
		host_detail(a);
	} else if (strcmp(command, "await") == 0) {
		await(text, a != 0);
	} else if (strcmp(command, "make") == 0) {
		make_event(a, b, text);
	} else if (strcmp(command, "names") == 0) {
		make_names(a);
	} else if (strcmp(command, "labels") == 0) {
		make_labels(a);
	} else if (strcmp(command, "fire") == 0) {
		fire(a, text, b ? b : strlen(text) + 1);
	} else if (strcmp(command, "numbers") == 0) {
		fire_numbers(a, b);
	} else if (strcmp(command, "long") == 0) {
		fire_long(a, b);
	} else if (strcmp(command, "destroy") == 0) {
		rp_event_destroy(made[a]);
	} else if (strcmp(command, "load") == 0) {
		plugin = dlopen(plugin_path, RTLD_NOW);
		if (!plugin)
			printf("%s\n", dlerror());
	} else if (strcmp(command, "plugin") == 0) {
		write_plugin(a);
	} else if (strcmp(command, "unload") == 0) {
		dlclose(plugin);
	} else if (strcmp(command, "fork") == 0) {
		run_child(a, b);
	} else if (strcmp(command, "look") == 0) {
		look();
	} else if (strcmp(command, "on") == 0) {
		printf("%d\n", is_on(text));
	} else if (strcmp(command, "heard") == 0) {
		say_heard(a);
	} else if (strcmp(command, "attach") == 0) {
		printf("%d\n", component_attach(host_provider()));
	} else if (strcmp(command, "activity") == 0) {
		write_activity(a);
	} else if (strcmp(command, "thread") == 0) {
		pthread_create(&thread, NULL, write_on_thread, &a);
		pthread_join(thread, NULL);
	} else if (strcmp(command, "graded") == 0) {
		make_levels();
	} else if (strcmp(command, "list") == 0) {
		rp_enabled_list(list_row, NULL);
	} else if (strcmp(command, "start") == 0) {
		printf("%s\n", strerror(-rp_lttng_start()));
	}
}

int main(int argc, char **argv)
{
	static char line[1024], command[16], text[512];

	plugin_path = argc > 1 ? argv[1] : NULL;
	rp_provider_set_callback(host_provider(), hear, NULL);
	write_ticks(0, 1, "early");
	printf("%d\n", (int)getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		unsigned int a = 0, b = 0;

		text[0] = '\0';
		sscanf(line, "%15s %u %u %511[^\n]", command, &a, &b, text);
		obey(command, a, b, text);
		printf("done\n");
		fflush(stdout);
	}
	return 0;
}
