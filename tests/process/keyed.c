/* SPDX-License-Identifier: MIT */
/*
 * Static keys in processes whose code must not be changed, from the start or from a later moment.
 * Without arguments, the program starts itself once for each case, with RINGPIPE_STATIC_KEYS=1, so
 * that the library reports the refusal on standard error.
 */
#undef RP_STATIC_KEYS
#define RP_STATIC_KEYS 1

#include "check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define JUMP 0xe9
#define PASS 0xa9
#define EVENTS 100u
#define NOBODY 65534
#define SET_MDWE 65		/* PR_SET_MDWE of Linux 6.3 */
#define SYS_MSEAL 462		/* of Linux 6.10 */
#define SEAL "KEYED_SEAL"	/* in the environment: seal the code before anything else */
#define PAGE 4096u

RP_PROVIDER(keyed, "Test-Keyed");
RP_EVENT(keyed, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial));
RP_EVENT(keyed, other, 2, RP_LEVEL_INFORMATIONAL, 0);

static __attribute__((noinline)) int mark(uint64_t serial)
{
	return keyed_mark(serial);
}

/* Return the first byte of the event's only site. */
static unsigned char site_of(const struct rp_event *event)
{
	for (const struct rp_key *key = __start_rp_keys; key < __stop_rp_keys; key++) {
		if ((const char *)&key->event + key->event == (const char *)&event->enable)
			return *(const volatile unsigned char *)((const char *)&key->site +
								 key->site);
	}
	check(!"the event has a site");
	return 0;
}

static bool all_sites_are(unsigned char byte)
{
	return site_of(&keyed_mark_event_) == byte && site_of(&keyed_other_event_) == byte;
}

/* Check that the events of a session are delivered or counted, whatever state the sites have. */
static void expect_events(void)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct rp_listener *listener;

	check(mark(0) == 0);
	listener = listen_to("Test-Keyed");
	check(all_sites_are(JUMP));
	for (uint64_t serial = 0; serial < EVENTS; serial++)
		check(mark(serial) == 0);
	check(rp_listener_stop(listener, &stats) == 0);
	check(stats.delivered + stats.lost == EVENTS);
}

static bool is_code_writable(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	bool found = false;
	char line[512];

	check(maps);
	while (fgets(line, sizeof(line), maps))
		found |= strstr(line, " rwxp ") && strchr(line, '/');
	fclose(maps);
	return found;
}

/* Find the library's thread that maintains sites, by its name. */
static bool has_thread(void)
{
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *task;
	bool found = false;

	check(tasks);
	while ((task = readdir(tasks))) {
		char path[300], name[32] = "";
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task->d_name);
		file = fopen(path, "r");
		if (!file)
			continue;
		found |= fgets(name, sizeof(name), file) && strcmp(name, "ringpipe-keys\n") == 0;
		fclose(file);
	}
	closedir(tasks);
	return found;
}

/* Refuse memory that is writable and executable, as SELinux without execmod does. */
static bool refuse_mprotect(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_mprotect, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, PROT_WRITE | PROT_EXEC),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PROT_WRITE | PROT_EXEC, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	/* The filter applies to all threads. */
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC,
		       &program) == 0;
}

static int seal_object(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	for (unsigned int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t begin = (info->dlpi_addr + segment->p_vaddr) / PAGE * PAGE;
		uintptr_t end = info->dlpi_addr + segment->p_vaddr + segment->p_memsz;

		if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X) &&
		    syscall(SYS_MSEAL, begin, (end - begin + PAGE - 1) / PAGE * PAGE, 0) != 0)
			*(bool *)data = false;
	}
	return 0;
}

/* Refuse mprotect(2) of code for good, as a loader may do for all objects. */
static bool seal_code(void)
{
	bool sealed = true;

	dl_iterate_phdr(seal_object, &sealed);
	return sealed;
}

/* Runs before the constructor that registers the object. */
__attribute__((constructor(101))) static void seal_at_start(void)
{
	if (getenv(SEAL) && !seal_code())
		_exit(SKIPPED);
}

/* Make the file in /proc belong to root, as in a server that started as root. */
static bool refuse_proc(void)
{
	int fd;

	if (getuid() == 0 ? setuid(NOBODY) != 0 : prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
		return false;
	fd = open("/proc/thread-self/mem", O_WRONLY | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	return fd < 0;
}

static void code_is_changed(void)
{
	wait_until(all_sites_are(PASS));
	expect_events();
	wait_until(all_sites_are(PASS));
	check(!is_code_writable());
}

static void code_is_left_alone(void)
{
	wait_until(!has_thread());
	check(all_sites_are(JUMP));
	expect_events();
	check(all_sites_are(JUMP));
	check(!is_code_writable());
}

static void after_a_change_of_user(void)
{
	wait_until(all_sites_are(PASS));
	if (!refuse_proc())
		_exit(SKIPPED);
	expect_events();
	wait_until(all_sites_are(PASS));
	expect_events();
}

/* If one way to write code is refused, the other one must restore the sites. */
static void after_mprotect_is_refused(void)
{
	wait_until(all_sites_are(PASS));
	if (!refuse_mprotect())
		_exit(SKIPPED);
	expect_events();
	wait_until(all_sites_are(PASS));
	expect_events();
}

static void after_code_is_sealed(void)
{
	wait_until(all_sites_are(PASS));
	if (!seal_code())
		_exit(SKIPPED);
	expect_events();
	wait_until(all_sites_are(PASS));
	expect_events();
}

/* No code can be changed any more: each jump remains a jump. */
static void after_both_are_refused(void)
{
	struct rp_listener *listener;

	wait_until(all_sites_are(PASS));
	listener = listen_to("Test-Keyed");
	check(all_sites_are(JUMP));
	if (!refuse_mprotect() || !refuse_proc())
		_exit(SKIPPED);
	check(rp_listener_stop(listener, NULL) == 0);
	expect_events();
	check(all_sites_are(JUMP));
}

/* keyed_gdb_test.py sets a breakpoint in mark(), and removes it at the fourth call. */
static void under_a_debugger(void)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct rp_listener *listener;

	for (uint64_t serial = 1; serial < 4; serial += 2) {
		wait_until(site_of(&keyed_other_event_) == PASS);
		check(mark(serial) == 0);
		listener = listen_to("Test-Keyed");
		check(site_of(&keyed_other_event_) == JUMP);
		check(keyed_other() == 0);
		check(mark(serial + 1) == 0);
		if (serial == 1)
			check(rp_listener_stop(listener, NULL) == 0);
	}
	wait_until(all_sites_are(JUMP));
	check(mark(5) == 0);
	check(rp_listener_stop(listener, &stats) == 0);
	check(stats.delivered + stats.lost >= 2);
	code_is_changed();
}

static bool nothing(void)
{
	return true;
}

static bool turn_off(void)
{
	return setenv("RINGPIPE_STATIC_KEYS", "0", 1) == 0;
}

/* Refuse to make memory executable, for this process and the programs that it executes. */
static bool deny_write_execute(void)
{
	return prctl(SET_MDWE, 1, 0, 0, 0) == 0;
}

static bool seal_program(void)
{
	return setenv(SEAL, "1", 1) == 0;
}

static const struct scenario {
	const char *name;
	bool (*before)(void);	/* called before the program is loaded */
	void (*run)(void);
	int refusal;		/* errno reported on standard error; 0: no report */
} scenarios[] = {
	{ "code_is_changed", nothing, code_is_changed, 0 },
	{ "variable_turns_it_off", turn_off, code_is_left_alone, 0 },
	{ "mprotect_is_refused", refuse_mprotect, code_is_left_alone, EACCES },
	{ "memory_that_is_written_is_not_executed", deny_write_execute, code_is_left_alone,
	  EACCES },
	{ "code_is_sealed", seal_program, code_is_left_alone, EPERM },
	{ "code_is_sealed_later", nothing, after_code_is_sealed, 0 },
	{ "process_changes_its_user", nothing, after_a_change_of_user, 0 },
	{ "mprotect_is_refused_later", nothing, after_mprotect_is_refused, 0 },
	{ "both_are_refused_later", nothing, after_both_are_refused, 0 },
};

#define SCENARIOS (sizeof(scenarios) / sizeof(scenarios[0]))

/* Return: whether the warning appears exactly once. Copies all output, for failure reports. */
static bool is_said(FILE *said, int refusal)
{
	char line[512], expected[256];
	unsigned int count = 0;

	snprintf(expected, sizeof(expected), "RINGPIPE_STATIC_KEYS \"1\": %s\n",
		 strerror(refusal));
	rewind(said);
	while (fgets(line, sizeof(line), said)) {
		fputs(line, stderr);
		if (strstr(line, "RINGPIPE_STATIC_KEYS"))
			count += refusal && strstr(line, expected) ? 1 : 2;
	}
	return count == (refusal ? 1 : 0);
}

static void start(const char *program, unsigned int i)
{
	const struct scenario *scenario = &scenarios[i];
	FILE *said = tmpfile();
	int status;
	pid_t child;

	check(said);
	child = fork();
	if (child == 0) {
		dup2(fileno(said), STDERR_FILENO);
		setenv("RINGPIPE_STATIC_KEYS", "1", 1);
		if (!scenario->before())
			_exit(SKIPPED);
		execl(program, program, scenario->name, (char *)NULL);
		_exit(126);
	}
	check(child > 0 && waitpid(child, &status, 0) == child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
		printf("ok %u - %s # SKIP not possible here\n", i + 1, scenario->name);
	else
		printf("%sok %u - %s\n", is_said(said, scenario->refusal) && status == 0 ? "" :
		       "not ", i + 1, scenario->name);
	fclose(said);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		printf("1..%zu\n", SCENARIOS);
	fflush(stdout);
	if (argc == 2 && strcmp(argv[1], "under_a_debugger") == 0) {
		under_a_debugger();
		_exit(0);
	}
	for (unsigned int i = 0; i < SCENARIOS; i++) {
		if (argc < 2) {
			start("/proc/self/exe", i);
			fflush(stdout);
		} else if (strcmp(argv[1], scenarios[i].name) == 0) {
			scenarios[i].run();
			_exit(0);
		}
	}
	return argc < 2 ? 0 : 2;
}
