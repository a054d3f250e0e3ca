/* SPDX-License-Identifier: MIT */
/*
 * Measures the cost of many idle clients of the diagnostics socket: the time of another client's
 * ProcessInfo, and the cost of an enabled event, alternately with and without them.
 */
#include <errno.h>
#include <glob.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "clock.h"
#include "session.h"

#define CROWD 1000u
#define DESCRIPTORS 4096u
#define PAIRS 40u
#define ASKS 25u		/* in each half of a pair */
#define EVENTS 20000u
#define PATIENCE_SECONDS 60

RP_PROVIDER(bench, "Bench-Clients");
RP_EVENT(bench, bytes32, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d));

static struct sockaddr_un address = { .sun_family = AF_UNIX };
static int crowd[CROWD];

struct half {
	double event_ns[PAIRS];
	double asked_us[PAIRS * ASKS];
};

static double behind_us[PAIRS];

static void fail(const char *what)
{
	fprintf(stderr, "bench-clients: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* ipc-protocol.md of dotnet/diagnostics: dotnet-diagnostic-PID-KEY-socket in $TMPDIR. */
static void find_socket(void)
{
	const char *directory = getenv("TMPDIR");
	char pattern[512];
	glob_t found;

	snprintf(pattern, sizeof(pattern), "%s/dotnet-diagnostic-%d-*-socket",
		 directory && *directory ? directory : "/tmp", (int)getpid());
	while (glob(pattern, 0, NULL, &found) == GLOB_NOMATCH)
		usleep(1000);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", found.gl_pathv[0]);
	globfree(&found);
}

static int join_server(void)
{
	const struct timeval patience = { .tv_sec = PATIENCE_SECONDS };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
	    connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		fail("cannot connect");
	return fd;
}

/* Sends ProcessInfo as a separate client, timed from connect(2) to the end of the reply. */
static double ask_us(void)
{
	static const uint8_t request[20] = "DOTNET_IPC_V1\0\x14\0\x04\0\0";
	double begun = now_ns();
	char reply[4096];
	ssize_t n, got = 0;
	int fd = join_server();

	if (write(fd, request, sizeof(request)) != sizeof(request))
		fail("cannot ask");
	while ((n = read(fd, reply, sizeof(reply))) > 0)
		got += n;
	if (n < 0 || got <= 20 || reply[16] != '\xff' || reply[17] != 0)
		fail("no ProcessInfo");
	close(fd);
	return (now_ns() - begun) / 1000;
}

/*
 * Opens the connections. The server accepts in order, so a client that asks after them gets its
 * reply once the server has accepted all. Return: the time for that in us.
 */
static double gather(void)
{
	for (unsigned int i = 0; i < CROWD; i++)
		crowd[i] = join_server();
	return ask_us();
}

/* Return: the number of open connections; the server keeps as many as its table can hold. */
static unsigned int scatter(void)
{
	unsigned int there = 0;
	char byte;

	for (unsigned int i = 0; i < CROWD; i++) {
		there += recv(crowd[i], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
		close(crowd[i]);
	}
	ask_us();
	return there;
}

static void measure(struct rp_session *session, uint64_t *written, struct half *half,
		    unsigned int pair)
{
	double begun;

	for (unsigned int i = 0; i < ASKS; i++)
		half->asked_us[pair * ASKS + i] = ask_us();
	bench_settle(session, *written);
	begun = now_ns();
	for (unsigned int i = 0; i < EVENTS; i++)
		bench_bytes32(i, i, i, i);
	half->event_ns[pair] = (now_ns() - begun) / EVENTS;
	bench_settle(session, *written += EVENTS);
}

static void raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		fail("getrlimit");
	limit.rlim_cur = limit.rlim_max < DESCRIPTORS ? limit.rlim_max : DESCRIPTORS;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		fail("setrlimit");
}

static void report(double *us, unsigned int count, const char *whose)
{
	char name[64];

	sort_rounds(us, count);
	snprintf(name, sizeof(name), "ProcessInfo %s, median", whose);
	figure(name, us[count / 2], "us");
	snprintf(name, sizeof(name), "ProcessInfo %s, worst", whose);
	figure(name, us[count - 1], "us");
}

int main(void)
{
	static struct half with, without;
	struct rp_session *session = bench_start("Bench-Clients", "/dev/null", 64u << 20, 0);
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	unsigned int there = 0;
	double ratios[PAIRS];
	uint64_t written = 0;

	raise_limit();
	find_socket();
	for (unsigned int pair = 0; pair < PAIRS; pair++) {
		measure(session, &written, &without, pair);
		behind_us[pair] = gather();
		measure(session, &written, &with, pair);
		there = scatter();
		ratios[pair] = with.event_ns[pair] / without.event_ns[pair];
	}
	rp_session_stop(session, &stats);
	figure("1,000 silent clients: the server keeps", there, "");
	report(without.asked_us, PAIRS * ASKS, "without them");
	report(with.asked_us, PAIRS * ASKS, "with them");
	report(behind_us, PAIRS, "right after their connects");
	sort_rounds(ratios, PAIRS);
	figure("event 32 B, with them / without, median of pairs", ratios[PAIRS / 2], "x");
	figure("lost", (double)stats.lost, "events");
	return 0;
}
