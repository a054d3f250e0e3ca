/* SPDX-License-Identifier: MIT */
/*
 * A program for other users to spy on: it prints its pid, then writes events until its standard
 * input ends. Its names and texts contain control characters for a terminal. The event `paid` and a
 * dynamic event have secret fields.
 *
 * `ids UID`: set the effective user id to UID. `saved UID OTHER`: set all user ids to UID, except
 * the saved one, to which the process can return.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#define TICK_MS 5
/* Clears a screen by ESC and by U+009B, rings, and begins a line that looks like ringpipe's. */
#define EVIL "evil\033[2J\302\2332J\a\r\nringpipe: all is well\177"
#define SECRET "hunter2-"

RP_PROVIDER(till, "Till");
RP_EVENT(till, paid, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U64(serial), RP_SECRET(RP_STRING(card)),
	 RP_SECRET(RP_STRING16(wide)), RP_SECRET(RP_BLOB(code)));

static struct rp_event *make_event(const char *provider_name, const char *name,
				   const struct rp_field *field)
{
	struct rp_event_decl decl = {
		.size = sizeof(decl), .id = 1, .name = name, .keywords = 0x1,
		.level = RP_LEVEL_INFORMATIONAL, .fields = field, .field_count = 1,
	};
	struct rp_provider *provider;
	struct rp_event *event;

	if (rp_provider_create(provider_name, NULL, NULL, &provider) != 0 ||
	    rp_event_create(provider, &decl, &event) != 0)
		exit(1);
	return event;
}

static void make_counter(void)
{
	struct rp_counter_decl decl = {
		.size = sizeof(decl), .kind = RP_COUNTER_SUM, .name = EVIL, .unit = EVIL,
		.display_name = EVIL,
	};
	struct rp_provider *provider;
	struct rp_counter *counter;

	if (rp_provider_create("Evil-Counters", NULL, NULL, &provider) != 0 ||
	    rp_counter_create(provider, &decl, &counter) != 0 || rp_counter_add(counter, 1) != 0)
		exit(1);
}

int main(int argc, char **argv)
{
	static const struct rp_field open = { .name = EVIL, .type = RP_TYPE_STRING };
	static const struct rp_field closed = {
		.name = "card", .type = RP_TYPE_STRING, .flags = RP_FIELD_SECRET,
	};
	static const rp_char16 wide[] = { 'h', 'u', 'n', 't', 'e', 'r', '2', 0 };
	const struct rp_part text = { EVIL, sizeof(EVIL) };
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	struct rp_event *evil = make_event(EVIL, EVIL, &open);
	struct rp_event *made = make_event("Till-Made", "made", &closed);
	uint64_t serial = 0;
	char card[64], bytes[64];

	make_counter();
	prctl(PR_SET_NAME, EVIL);
	if (argc > 2 && strcmp(argv[1], "ids") == 0 && seteuid((uid_t)atoi(argv[2])) != 0)
		return 1;
	if (argc > 3 && strcmp(argv[1], "saved") == 0 &&
	    setresuid((uid_t)atoi(argv[2]), (uid_t)atoi(argv[2]), (uid_t)atoi(argv[3])) != 0)
		return 1;
	printf("%d\n", getpid());
	fflush(stdout);
	for (;;) {
		if (poll(&input, 1, TICK_MS) > 0 && read(STDIN_FILENO, bytes, sizeof(bytes)) <= 0)
			return 0;
		rp_event_write(evil, &text, 1);
		snprintf(card, sizeof(card), SECRET "%llu", (unsigned long long)serial);
		till_paid(serial++, card, wide, card, strlen(card));
		rp_event_write(made, &(struct rp_part){ card, strlen(card) + 1 }, 1);
	}
}
