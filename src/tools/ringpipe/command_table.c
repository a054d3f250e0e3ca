/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe/command_table.h"

#include <stddef.h>

#include "tools/cli/bpf_options.h"
#include "tools/cli/gen_options.h"
#include "tools/cli/record_options.h"
#include "tools/cli/symbolize_options.h"

/* The headings of the help, in the order of the commands. */
static const char look[] = "Look into a process", record[] = "Record a trace and read it",
	flight[] = "Keep the newest events in the process, and write them on demand",
	kernel[] = "Count and print events in the kernel", crash[] = "After a crash",
	declare[] = "Declare the events of a program",
	help[] = "Help";

/* How all commands name the process. */
#define PROCESS "(PID | -p PID | -n NAME)"

#define UNTIL_END "It ends with Ctrl-C, SIGTERM, the duration, or the process.\n"

#define BPF_NOTES \
	"The process fires a probe for each batch of its events, and a BPF\n" \
	"program reads them there. Needs root, or CAP_SYS_ADMIN.\n"

#define COUNTERS_OPTIONS \
	(RP_OPTION_PID | RP_OPTION_NAME | RP_OPTION_COUNTERS | RP_OPTION_MISSING | \
	 RP_OPTION_REFRESH | RP_OPTION_DURATION | RP_OPTION_HELP)

static const char by_itself[] = "the process writes the file itself";

const struct rp_tool_command rp_commands[] = {
	{
		.name = "ps",
		.task = look,
		.arguments = "",
		.help = "list the processes that can be traced",
		.notes = "The command finds processes by their diagnostics sockets, whatever\n"
			 "their TMPDIR was at the start. The runtime is \"?\" if the process did\n"
			 "not answer.\n",
		.examples = "ps\n",
		.options = RP_OPTION_FORMAT | RP_OPTION_HELP,
		.run = rp_command_ps,
	},
	{
		.name = "list",
		.task = look,
		.arguments = PROCESS,
		.help = "show a process's providers and the sessions that enabled them",
		.notes = "With --events, it shows all events of the process, enabled or not.\n",
		.examples = "list -n shop\n"
			    "list -n shop --events --fields\n",
		.options = RP_OPTION_PID | RP_OPTION_NAME | RP_OPTION_OWN_EVENTS |
			   RP_OPTION_FIELDS | RP_OPTION_ALL | RP_OPTION_FORMAT | RP_OPTION_HELP,
		.run = rp_command_list,
	},
	{
		.name = "counters monitor",
		.task = look,
		.arguments = PROCESS,
		.help = "show the counters of a process in a table",
		.notes = "The table is redrawn on a terminal. With a --format other than text, it\n"
			 "prints the rows of counters collect.\n" UNTIL_END,
		.examples = "counters monitor -n shop\n"
			    "counters monitor -n shop --counters Shop-Orders,System.Runtime\n",
		.options = COUNTERS_OPTIONS | RP_OPTION_FORMAT,
		.run = rp_command_counters_monitor,
	},
	{
		.name = "counters collect",
		.task = look,
		.arguments = PROCESS,
		.help = "write the counters of a process as rows",
		.notes = "A row for each value goes to the file of -o or to standard output, in\n"
			 "CSV and JSON as dotnet-counters writes it.\n" UNTIL_END,
		.examples = "counters collect -n shop -d 1m --format csv -o shop.csv\n",
		.options = COUNTERS_OPTIONS | RP_OPTION_OUTPUT | RP_OPTION_FORCE | RP_OPTION_FORMAT,
		.run = rp_command_counters_collect,
	},
	{
		.name = "counters serve",
		.task = look,
		.arguments = PROCESS,
		.help = "serve the counters of a process to Prometheus",
		.notes = "The last values are at http://127.0.0.1:PORT/metrics.\n" UNTIL_END,
		.examples = "counters serve -n shop --port 9464\n",
		.options = COUNTERS_OPTIONS | RP_OPTION_PORT | RP_OPTION_LISTEN,
		.run = rp_command_counters_serve,
	},
	{
		.name = "top",
		.task = look,
		.arguments = "[PID | -p PID | -n NAME]",
		.help = "show spans, hot functions, counters and losses of a process, live",
		.notes = "On a terminal, the command redraws its tables at each interval; h shows\n"
			 "the keys, and q ends it. Without a process, the user chooses one there.\n"
			 "Elsewhere, and with a --format other than text, it prints a block for\n"
			 "each interval; without a process, of each process that can be traced,\n"
			 "also of later ones. Events that occur faster than they can be read are\n"
			 "dropped, and counted. The process never waits.\n"
			 "The default of --providers is *:ffffffffffffffff:4; for .NET, the\n"
			 "providers System.Runtime and Microsoft-AspNetCore-Hosting. The counters\n"
			 "of a .NET process include its meters.\n" UNTIL_END,
		.examples = "top -n shop\n"
			    "top -n shop --format json -d 10\n",
		.options = RP_OPTION_PID | RP_OPTION_NAME | RP_OPTION_PROVIDERS |
			   RP_OPTION_MISSING | RP_OPTION_WHERE | RP_OPTION_REFRESH |
			   RP_OPTION_DURATION | RP_OPTION_BUFFER | RP_OPTION_TOP |
			   RP_OPTION_QUIET | RP_OPTION_FORMAT | RP_OPTION_HELP,
		.process_is_optional = true,
		.run = rp_command_top,
	},
	{
		.name = "stacks",
		.task = look,
		.arguments = PROCESS,
		.help = "show where each thread of a process is",
		.notes = "The command wakes no sleeping thread. It sees a running thread when the\n"
			 "thread has used a timer tick of processor time, or when it sleeps. The\n"
			 "session lasts half a second, or --duration.\n",
		.examples = "stacks -n shop\n",
		.options = RP_OPTION_PID | RP_OPTION_NAME | RP_OPTION_DURATION | RP_OPTION_FORMAT |
			   RP_OPTION_HELP,
		.run = rp_command_stacks,
	},
	{
		.name = "dump",
		.task = look,
		.arguments = PROCESS,
		.help = "write a core of a process, for a debugger",
		.notes = "The process writes the file itself, with its own rights. All its\n"
			 "threads are stopped meanwhile; the command prints for how long. Ctrl-C\n"
			 "cancels and leaves no file. Without -o, the file is\n"
			 "NAME_PID_YYYYMMDD_HHMMSS.core; -o - is refused.\n",
		.examples = "dump -n shop --type mini -o shop.core\n",
		.options = RP_OPTION_PID | RP_OPTION_NAME | RP_OPTION_OUTPUT | RP_OPTION_FORCE |
			   RP_OPTION_TYPE | RP_OPTION_QUIET | RP_OPTION_FORMAT | RP_OPTION_HELP,
		.needs_file = by_itself,
		.run = rp_command_dump,
	},
	{
		.name = "collect",
		.task = record,
		.arguments = "(PID | -p PID | -n NAME | -- COMMAND ARGUMENTS…)",
		.help = "record a trace into a file",
		.notes = "Ctrl-C, SIGTERM or the end of the duration stop the session; the file\n"
			 "is then complete. A second Ctrl-C ends immediately (status 130), and\n"
			 "the file can be read up to that point. A command after -- is traced\n"
			 "from its start to its end, or for the duration, and gets the signals;\n"
			 "ringpipe's status is the command's. Without -o the file is\n"
			 "NAME_PID_YYYYMMDD_HHMMSS.nettrace; -o - is standard output. The version\n"
			 "of nettrace is 4, or 6 with --format 6.\n",
		.examples = "collect -n shop -d 10 -o shop.nettrace\n"
			    "collect --providers Shop-Orders:1:4 -- ./shop --port 8080\n",
		.options = RP_OPTION_PID | RP_OPTION_NAME | RP_OPTION_TREE | RP_OPTION_OUTPUT |
			   RP_OPTION_FORCE | RP_OPTION_PROVIDERS | RP_OPTION_MISSING |
			   RP_OPTION_DURATION |
			   RP_OPTION_BUFFER | RP_OPTION_BLOCK | RP_OPTION_COARSE |
			   RP_OPTION_STACKS | RP_OPTION_KERNEL | RP_OPTION_QUIET |
			   RP_OPTION_FORMAT | RP_OPTION_HELP,
		.takes_version = true,
		.takes_child = true,
		.is_binary = true,
		.run = rp_command_collect,
	},
	{
		.name = "record",
		.task = record,
		.arguments = "[PID | -p PID… | -- COMMAND ARGUMENTS…]",
		.help = "record what the whole machine does",
		.notes = "Samples of all processes and of the kernel, with their stacks, go\n"
			 "into one trace in version 6 of nettrace. Recording ends at Ctrl-C,\n"
			 "SIGTERM, the end of the duration, the size or event of --until, or the\n"
			 "end of the command after --.\n"
			 "The trace has the events of all processes with ringpipe or .NET, too,\n"
			 "unless --providers none is given. The default of --providers is\n"
			 "*:ffffffffffffffff:4; for .NET, the basic events of the runtime. With a\n"
			 "PID, the trace has that process and its descendants; -p can be given\n"
			 "several times.\n"
			 "Without -o the file is machine_PID_YYYYMMDD_HHMMSS.nettrace. The\n"
			 "command needs root or CAP_PERFMON; for other users, it records their\n"
			 "own processes, without the kernel.\n",
		.examples = "record -d 10 -o machine.nettrace\n"
			    "record -- make -j8\n",
		.options = RP_RECORD_OPTIONS,
		.takes_child = true,
		.process_is_optional = true,
		.takes_processes = true,
		.is_binary = true,
		.run = rp_command_record,
	},
	{
		.name = "inbox",
		.task = record,
		.arguments = "-- COMMAND ARGUMENTS…",
		.help = "run a program with events of its threads, locks and memory",
		.notes = "The program does not need to know ringpipe: the library\n"
			 "libringpipe-inbox is preloaded. It offers the providers\n"
			 "ringpipe-threads, -locks, -heap, -exceptions, -signals, -process,\n"
			 "-loader and -syslog, whose events are off until a session asks for\n"
			 "them. The command refuses programs that are linked statically, that\n"
			 "are set-user-ID, or that use another C library than glibc, because\n"
			 "it could not trace them.\n",
		.examples = "inbox -- nginx -c nginx.conf\n",
		.options = RP_OPTION_HELP,
		.operands_min = 1,
		.operands_max = -1,
		.takes_child = true,
		.run = rp_command_inbox,
	},
	{
		.name = "tail",
		.task = record,
		.arguments = "[PID | -p PID | -n NAME]",
		.help = "print events as they occur",
		.notes = "Without a process, the command prints the events of all processes, also\n"
			 "of those that start later.\n"
			 "Events that occur faster than they can be printed are dropped, and the\n"
			 "command reports their number. The process never waits.\n" UNTIL_END,
		.examples = "tail -n shop\n"
			    "tail -n shop --where 'level <= warning' --format json\n",
		.options = RP_OPTION_PID | RP_OPTION_NAME | RP_OPTION_PROVIDERS |
			   RP_OPTION_MISSING | RP_OPTION_WHERE | RP_OPTION_DURATION |
			   RP_OPTION_BUFFER | RP_OPTION_ALL | RP_OPTION_QUIET | RP_OPTION_FORMAT |
			   RP_OPTION_HELP,
		.process_is_optional = true,
		.run = rp_command_tail,
	},
	{
		.name = "report",
		.task = record,
		.arguments = "FILE [WHAT]",
		.help = "print a summary of a trace, its events, spans or profiles",
		.notes = "WHAT is summary (default); events; spans, how long the work took that\n"
			 "has a start and a stop event; counters, their values; gc, the pauses\n"
			 "of garbage collections; losses; cpu, functions by processor time;\n"
			 "offcpu, functions by waiting time; waits, which thread blocked\n"
			 "which; heap, which stacks allocated memory; locks, which locks were\n"
			 "waited for; json, the fields of the JSON events of each source; or\n"
			 "timeline, what each thread did when.\n"
			 "FILE may be -, for standard input. If a trace is damaged or stops\n"
			 "before its end, the command prints what can be read, also after the\n"
			 "damage, and the status is 1.\n",
		.examples = "report shop.nettrace\n"
			    "report shop.nettrace events --where 'total > 100'\n"
			    "report shop.nettrace spans --from 1.5s --to 2s\n"
			    "report machine.nettrace cpu --by process\n"
			    "report yesterday.nettrace --diff today.nettrace\n",
		.options = RP_OPTION_ALL | RP_OPTION_TOP | RP_OPTION_SPAN | RP_OPTION_SLOWEST |
			   RP_OPTION_BY | RP_OPTION_FUNCTION | RP_OPTION_WHERE |
			   RP_OPTION_FROM | RP_OPTION_RANGE_END | RP_OPTION_DIFF |
			   RP_OPTION_FORMAT | RP_OPTION_HELP,
		.operands_min = 1,
		.operands_max = 2,
		.run = rp_command_report,
	},
	{
		.name = "explain",
		.task = record,
		.arguments = "FILE",
		.help = "divide the time of the slowest spans by what their threads did",
		.notes = "FILE is a trace of ringpipe record --profile all --off-cpu 0. A span is\n"
			 "the time between a start and a stop event; see ringpipe report FILE\n"
			 "spans. Its thread was on a processor, in the program, in system calls\n"
			 "or interrupted; ready to run; or it waited for a lock, a disk, a page\n"
			 "of memory, the network, another process with the same trace id, or a\n"
			 "time.\n"
			 "Time without a record is unexplained.\n",
		.examples = "explain machine.nettrace\n"
			    "explain --span request --slowest 3 machine.nettrace\n",
		.options = RP_OPTION_SPAN | RP_OPTION_SLOWEST | RP_OPTION_ID | RP_OPTION_WHERE |
			   RP_OPTION_FROM | RP_OPTION_RANGE_END | RP_OPTION_FORMAT |
			   RP_OPTION_HELP,
		.operands_min = 1,
		.operands_max = 1,
		.run = rp_command_explain,
	},
	{
		.name = "view",
		.task = record,
		.arguments = "FILE…",
		.help = "show traces in a browser",
		.notes = "The command reads each FILE, prints the address of a page on this\n"
			 "machine, and serves it until Ctrl-C or SIGTERM. The page has a\n"
			 "timeline, flame graphs, spans and their explanations, counters and\n"
			 "events. The address contains a secret, without which other users of\n"
			 "the machine cannot read the page.\n",
		.examples = "view --open machine.nettrace\n"
			    "view --html slow.html machine.nettrace\n",
		.options = RP_OPTION_OPEN | RP_OPTION_VIEW_PORT | RP_OPTION_HTML | RP_OPTION_FORCE |
			   RP_OPTION_HELP,
		.operands_min = 1,
		.operands_max = -1,
		.run = rp_command_view,
	},
	{
		.name = "convert",
		.task = record,
		.arguments = "FILE",
		.help = "write a trace in another version or format",
		.notes = "FILE may be -, for standard input; -o - is standard output. The new\n"
			 "trace has the same events, stacks, losses, activity ids and clock. In\n"
			 "version 4, events of provider ringpipe state the processes of threads,\n"
			 "names of threads, labels, and keys of the trace.\n"
			 "If the output's name ends in .zst, zstd compresses the trace, which\n"
			 "keeps its version unless --format is given; all commands that read\n"
			 "traces accept it.\n"
			 "If FILE is damaged or stops before its end, the new trace has what can\n"
			 "be read, also after the damage, and the status is 1. After Ctrl-C, it\n"
			 "is complete up to there, and the status is 130.\n",
		.examples = "convert shop.nettrace -o shop6.nettrace\n"
			    "convert --format 4 -o old.nettrace new.nettrace\n"
			    "convert --where 'total > 100' -o large.nettrace shop.nettrace\n"
			    "convert --to chrome shop.nettrace -o shop.json\n",
		.options = RP_OPTION_OUTPUT | RP_OPTION_FORCE | RP_OPTION_VERSION |
			   RP_OPTION_COMPACT | RP_OPTION_WHERE | RP_OPTION_TO |
			   RP_OPTION_FROM | RP_OPTION_QUIET | RP_OPTION_HELP,
		.operands_min = 1,
		.operands_max = 1,
		.is_binary = true,
		.run = rp_command_convert,
	},
	{
		.name = "merge",
		.task = record,
		.arguments = "FILE FILE…",
		.help = "put traces of several processes or machines into one",
		.notes = "The new trace has the events of all in the order of time, in version 6\n"
			 "and on the clock of the first machine. The times of other machines are\n"
			 "converted by the time of day, which record reads each minute; the\n"
			 "command prints how well. Names of processes then end in @HOST, and the\n"
			 "ids of the processes and threads of each further machine are higher by\n"
			 "67,108,864.\n"
			 "If a FILE is damaged or stops before its end, what can be read of it is\n"
			 "merged, also after the damage, and the status is 1. -o - is standard\n"
			 "output; a name that ends in .zst is compressed.\n",
		.examples = "merge web1.nettrace web2.nettrace -o site.nettrace\n",
		.options = RP_OPTION_OUTPUT | RP_OPTION_FORCE | RP_OPTION_QUIET | RP_OPTION_HELP,
		.operands_min = 2,
		.operands_max = -1,
		.is_binary = true,
		.run = rp_command_merge,
	},
	{
		.name = "symbolize",
		.task = record,
		.arguments = "FILE",
		.help = "add the names of functions to a trace of the machine",
		.notes = "The trace states the build ids of its files. The command finds them, or\n"
			 "their debug files, on this machine: in --symbols, at their own paths,\n"
			 "in /usr/lib/debug, and on the servers in DEBUGINFOD_URLS. It adds the\n"
			 "functions that the stacks of the trace lack, and lists the files that\n"
			 "it did not find.\n",
		.examples = "symbolize machine.nettrace -o named.nettrace --symbols binaries\n"
			    "symbolize machine.nettrace -o named.nettrace --inlines\n",
		.options = RP_SYMBOLIZE_OPTIONS,
		.operands_min = 1,
		.operands_max = 1,
		.is_binary = true,
		.run = rp_command_symbolize,
	},
	{
		.name = "flight start",
		.task = flight,
		.arguments = PROCESS,
		.help = "start a flight recorder in a process",
		.notes = "The process keeps the newest events in --buffer of its memory, which\n"
			 "overwrite the oldest, until ringpipe flight stop or its end. ringpipe\n"
			 "flight snapshot writes them to a file. With --roll the process writes\n"
			 "them to files itself, with its own rights. There is one such recorder\n"
			 "in a process.\n",
		.examples = "flight start -n shop --providers Shop-Orders\n"
			    "flight start -n shop --last 30s\n",
		.options = RP_OPTION_PID | RP_OPTION_NAME | RP_OPTION_OUTPUT |
			   RP_OPTION_PROVIDERS | RP_OPTION_MISSING | RP_OPTION_BUFFER |
			   RP_OPTION_LAST | RP_OPTION_COARSE | RP_OPTION_STACKS |
			   RP_OPTION_RECOVER | RP_OPTION_ROLL | RP_OPTION_VERSION |
			   RP_OPTION_HELP,
		.needs_file = by_itself,
		.run = rp_command_flight_start,
	},
	{
		.name = "flight snapshot",
		.task = flight,
		.arguments = PROCESS,
		.help = "write the events of a flight recorder into a file",
		.notes = "The recorder continues. --session is necessary if the process has more\n"
			 "than one. Ctrl-C cancels and leaves no file. Without -o, the file is\n"
			 "NAME_PID_YYYYMMDD_HHMMSS.nettrace; -o - is standard output.\n",
		.examples = "flight snapshot -n shop -o before.nettrace\n",
		.options = RP_OPTION_PID | RP_OPTION_NAME | RP_OPTION_OUTPUT | RP_OPTION_FORCE |
			   RP_OPTION_SESSION | RP_OPTION_QUIET | RP_OPTION_FORMAT | RP_OPTION_HELP,
		.is_binary = true,
		.run = rp_command_flight_snapshot,
	},
	{
		.name = "flight stop",
		.task = flight,
		.arguments = PROCESS,
		.help = "stop the flight recorder that flight start started",
		.examples = "flight stop -n shop\n",
		.options = RP_OPTION_PID | RP_OPTION_NAME | RP_OPTION_HELP,
		.run = rp_command_flight_stop,
	},
	{
		.name = "bpf count",
		.task = kernel,
		.arguments = PROCESS,
		.help = "count events, or the values of a field, by BPF",
		.notes = BPF_NOTES UNTIL_END,
		.examples = "bpf count -n shop -d 10\n"
			    "bpf count -n shop --event Shop-Orders:order_placed --field customer\n",
		.options = RP_BPF_COUNT_OPTIONS,
		.run = rp_command_bpf,
	},
	{
		.name = "bpf histogram",
		.task = kernel,
		.arguments = PROCESS,
		.help = "show the distribution of a field's values, by BPF",
		.notes = "Floats lose their fraction.\n" BPF_NOTES UNTIL_END,
		.examples = "bpf histogram -n shop --event Shop-Orders:order_placed "
			    "--field total\n",
		.options = RP_BPF_HISTOGRAM_OPTIONS,
		.run = rp_command_bpf,
	},
	{
		.name = "bpf print",
		.task = kernel,
		.arguments = PROCESS,
		.help = "print a line for each event, by BPF",
		.notes = BPF_NOTES UNTIL_END,
		.examples = "bpf print -n shop --event Shop-Orders:order_placed\n",
		.options = RP_BPF_PRINT_OPTIONS,
		.run = rp_command_bpf,
	},
	{
		.name = "recover",
		.task = crash,
		.arguments = "(DIRECTORY | --list [PARENT] | --prune [PARENT])",
		.help = "make a trace from the files of a killed process",
		.notes = "A process started with RINGPIPE_RECOVER=1 leaves a directory when it is\n"
			 "killed. The trace has the events that the session had written, and\n"
			 "those still in its rings. Without -o, the file is\n"
			 "NAME_PID_YYYYMMDD_HHMMSS.nettrace. The default PARENT is\n"
			 "/dev/shm/ringpipe-UID.\n",
		.examples = "recover --list\n"
			    "recover /dev/shm/ringpipe-1000/4711-1a2b -o shop.nettrace\n",
		.options = RP_OPTION_OUTPUT | RP_OPTION_FORCE | RP_OPTION_LIST |
			   RP_OPTION_PRUNE | RP_OPTION_FORMAT | RP_OPTION_HELP,
		.operands_max = 1,
		.needs_file = "recovering reads the trace back",
		.run = rp_command_recover,
	},
	{
		.name = "gen",
		.task = declare,
		.arguments = "[MANIFEST]",
		.help = "generate code from an ETW instrumentation manifest",
		.notes = "For NAME.man, the command writes NAME.h and NAME.c into the directory\n"
			 "of -o: a function for each event, with typed parameters, and names of\n"
			 "keywords, levels, tasks and maps. --to selects other files: a provider\n"
			 "for LTTng-UST, NAME.d or NAME.md. An error states the line and column\n"
			 "of the manifest and the rule that is broken; the status is then 1. A\n"
			 "file that the command did not generate is only replaced with --force.\n"
			 "With --from-binary, it writes a manifest of the events of a program.\n",
		.examples = "gen shop.man -o generated\n"
			    "gen shop.man -o generated --to markdown\n"
			    "gen --from-binary ./server -o server.man\n",
		.options = RP_GEN_OPTIONS,
		.operands_min = 0,
		.operands_max = 1,
		.run = rp_command_gen,
	},
	{
		.name = "doctor",
		.task = help,
		.arguments = "",
		.help = "check what works on this machine, and how to get the rest",
		.notes = "It tries the calls that servers, exporters and recordings need, as this\n"
			 "user. The status is 1 if no process could be traced here.\n",
		.examples = "doctor\n",
		.options = RP_OPTION_FORMAT | RP_OPTION_HELP,
		.run = rp_command_doctor,
	},
	{
		.name = "help",
		.task = help,
		.arguments = "[COMMAND]",
		.help = "print the commands, or the help of one",
		.examples = "help counters monitor\n",
		.options = RP_OPTION_HELP,
		.operands_max = 2,
		.run = rp_command_help,
	},
};

const size_t rp_command_count = sizeof(rp_commands) / sizeof(rp_commands[0]);
