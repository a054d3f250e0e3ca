/* SPDX-License-Identifier: MIT */
/*
 * Provisional: later versions may change this header in ways that require programs to be rebuilt.
 *
 * The host port: what a program or a language runtime, the *host*, supplies to the library. Every
 * member of struct rp_host has a default for a plain program on Linux, so a C program needs none of
 * this. doc/porting.md describes a port step by step, and ringpipe-host-test(7) checks one.
 */
#ifndef RINGPIPE_HOST_H
#define RINGPIPE_HOST_H

#include <ringpipe/types.h>

RP_BEGIN_DECLS

/* A range of addresses; end is exclusive. */
struct rp_host_range {
	uint64_t start, end;
};

/*
 * Separates the frames of two invocations of the interpreter in the result of `walk`. The native
 * functions between them are inserted there.
 */
#define RP_HOST_FRAME_NATIVE 0u

/* Where rp_host.walk runs. */
enum rp_host_walk_context {
	/*
	 * In the thread of the stack, which is writing an event. The host's data are consistent,
	 * unless a signal handler of the program writes the event.
	 */
	RP_HOST_WALK_EVENT = 1,
	/*
	 * In a signal handler that interrupted the thread of the stack at any instruction. The
	 * host's data may be half changed. All signals are blocked.
	 */
	RP_HOST_WALK_SIGNAL = 2,
	/* In the thread of the stack, which has called rp_host_sample_now(). */
	RP_HOST_WALK_SAFE_POINT = 3,
	/* In the sampler's thread, between rp_host.stop_world and rp_host.start_world. */
	RP_HOST_WALK_STOPPED = 4,
};

/* A stack to walk. */
struct rp_host_walk {
	uint32_t size;
	uint32_t context;		/* enum rp_host_walk_context */
	uint32_t thread;		/* the kernel's id of the thread whose stack this is */
	uint32_t native_count;		/* 0 in the context RP_HOST_WALK_STOPPED */
	const uint64_t *native;		/* the native frames, innermost first */
	const void *signal_context;	/* RP_HOST_WALK_SIGNAL: a ucontext_t; else NULL */
};

#define RP_HOST_WALK_SIZE_V1 RP_SIZE_THROUGH_(struct rp_host_walk, signal_context)

/*
 * Get the frames of the host's own functions, innermost first. A frame is the address of code, or a
 * number that the host chose and that `resolve` names. Such a number must not be the address of
 * other code, so take it from memory that the host has reserved with mmap(2) and PROT_NONE. Readers
 * of traces look up some frames one byte before their address, so give each method at least three
 * numbers and use one in the middle. Numbers below 4096 and above 2^47 are invalid.
 *
 * If the table has `interpreters`, the library mixes the frames with the native ones. It replaces
 * each native frame in an interpreter by the host's frames up to the next RP_HOST_FRAME_NATIVE:
 *
 *	native		qsort, call, interpreter, pcall, call, interpreter, main
 *	result of walk	compare, sort_names, RP_HOST_FRAME_NATIVE, main_chunk
 *	stack		qsort, call, compare, sort_names, pcall, call, main_chunk, main
 *
 * If an interpreter is not found in the native frames, the rest of the host's frames comes after
 * them. Without `interpreters`, the result replaces the native frames if it is not empty, and a
 * callback may copy frames from walk->native.
 *
 * Context: see enum rp_host_walk_context.
 *  - In all contexts the callback must not block, take a lock, allocate, write events, or call
 *    other functions of this library. A sample may interrupt it, and then it runs in the handler.
 *  - In RP_HOST_WALK_SIGNAL it may only call functions that signal-safety(7) allows, and only use
 *    data that are consistent at any instruction. If they are not, it can request a safe point in
 *    the host's own way, for example by a flag that the interpreter's loop tests, and return
 *    -EAGAIN. The thread must then call rp_host_sample_now() at that point.
 *  - In RP_HOST_WALK_STOPPED it reads the data of another thread, which do not change meanwhile.
 *
 * Return: the number of frames, at most `max`; 0 if the thread runs none of the host's functions;
 * -EAGAIN in RP_HOST_WALK_SIGNAL: see above. After any other error the stack has no host frames.
 */
typedef int (*rp_host_walk_callback)(const struct rp_host_walk *walk, uint64_t *ret_frames,
				     unsigned int max, void *data);

#define RP_HOST_NAME_BYTES 512u

/*
 * A function of the host, or a line of one. For `resolve`, the library initialises the struct; for
 * the visitor of `list_methods`, the host does.
 */
struct rp_host_method {
	uint32_t size;
	uint32_t line;			/* 0: unknown */
	uint64_t start, end;		/* the frames that have this name; end is exclusive */
	const void *code;		/* list_methods: machine code from `start` on; or NULL */
	char name[RP_HOST_NAME_BYTES];	/* UTF-8, ended by NUL */
	char file[RP_HOST_NAME_BYTES];	/* "": unknown */
};

#define RP_HOST_METHOD_SIZE_V1 RP_SIZE_THROUGH_(struct rp_host_method, file)
#define RP_HOST_METHOD_INIT RP_INIT_(struct rp_host_method)

/*
 * Describe the method of a frame. Traces show it as "NAME FILE:LINE", without the parts that are
 * unknown. The method must contain the frame. The callback also gets frames of methods that have
 * been freed since: keep their descriptions while sessions with stacks may run.
 *
 * Context: a thread of the library that may run while all threads of the host run, with all signals
 * masked. The callback may lock and allocate. The library waits for it at the end of a session with
 * stacks, and continues without the names after a few seconds.
 * Return: 0; -ENOENT or another -errno: the host does not know the frame.
 */
typedef int (*rp_host_resolve_callback)(uint64_t frame, struct rp_host_method *ret_method,
					void *data);

/* A range of frames that belong together, such as those of one interpreter or one assembly. */
struct rp_host_module {
	uint32_t size;
	uint32_t reserved;
	struct rp_host_range range;
	const char *path;		/* a file, or a name such as "[lua]" */
};

#define RP_HOST_MODULE_SIZE_V1 RP_SIZE_THROUGH_(struct rp_host_module, path)
#define RP_HOST_MODULE_INIT RP_INIT_(struct rp_host_module)

/* Functions of the library for rp_host.list_modules and rp_host.list_methods. */
typedef void (*rp_host_module_visitor)(const struct rp_host_module *module, void *visit_data);
typedef void (*rp_host_method_visitor)(const struct rp_host_method *method, void *visit_data);

/* How the sampler gets the stack of a running thread. */
enum rp_host_sample_mode {
	/* A timer signal interrupts the thread, and `walk` runs in the handler. */
	RP_HOST_SAMPLE_SIGNAL = 0,
	/*
	 * No signal: for each thread that has run since the previous sample, the sampler's thread
	 * calls `request_sample`. The host lets that thread call rp_host_sample_now() soon.
	 */
	RP_HOST_SAMPLE_SAFE_POINT = 1,
	/*
	 * No signal: the sampler's thread calls `stop_world`, then `walk` for each thread that has
	 * run since the previous sample, then `start_world`. Stacks contain only the host's frames.
	 */
	RP_HOST_SAMPLE_STOPPED = 2,
};

/* The state of the process, for rp_host.process_state. */
enum rp_host_process_state {
	RP_HOST_RUNNING = 0,
	/* The host is not ready: the library calls none of its other callbacks but `start_up`. */
	RP_HOST_STARTING = 1,
	/* The host is shutting down: as RP_HOST_STARTING, and clients cannot start sessions. */
	RP_HOST_ENDING = 2,
};

/* A command of the host's own command set that a diagnostics client has sent. */
struct rp_host_command {
	uint32_t size;
	uint32_t id;			/* below 255, which is no command in any set */
	const void *payload;
	size_t payload_bytes;
};

#define RP_HOST_COMMAND_SIZE_V1 RP_SIZE_THROUGH_(struct rp_host_command, payload_bytes)

/* The command sets that a host may have. All others belong to .NET and to ringpipe. */
#define RP_HOST_COMMAND_SET_MIN 0x80u
#define RP_HOST_COMMAND_SET_MAX 0xbfu

struct rp_host_reply;

/* The table. Members that are NULL or zero select the default for a plain program on Linux. */
struct rp_host {
	uint32_t size;
	uint32_t sample_mode;		/* enum rp_host_sample_mode */
	void *data;			/* the last argument of each callback */

	/*
	 * Threads. `thread_name` gets the name of a thread by the kernel's id. It runs in the
	 * sampler's thread, may lock, and returns 0, or -errno: use the kernel's name (the
	 * default). `thread_begin` and `thread_end` run in each thread that the library creates
	 * after the registration, so that the host can register the thread with its runtime.
	 */
	int (*thread_name)(uint32_t thread, char *ret_name, size_t space, void *data);
	void (*thread_begin)(const char *name, void *data);
	void (*thread_end)(void *data);

	/* Stacks. Default: native frames alone. */
	rp_host_walk_callback walk;
	const struct rp_host_range *interpreters;	/* see rp_host_find_function() */
	size_t interpreter_count;			/* at most RP_HOST_INTERPRETERS_MAX */

	/* Names of frames. Default: the symbols of loaded objects, and rp_code_add(). */
	rp_host_resolve_callback resolve;

	/*
	 * Rundown. `list_modules` calls `visit` for each module when a session with stacks ends, in
	 * the context of `resolve`. `list_methods` calls `visit` for each method that has machine
	 * code when a client enables perf maps or jitdump files, in the thread that serves clients.
	 * Register code that is generated later with rp_code_add().
	 */
	void (*list_modules)(rp_host_module_visitor visit, void *visit_data, void *data);
	void (*list_methods)(rp_host_method_visitor visit, void *visit_data, void *data);

	/*
	 * Sampling, for the modes other than RP_HOST_SAMPLE_SIGNAL, in the sampler's thread.
	 * `stop_world` returns 0 when no thread changes the host's data, or -errno: no sample this
	 * time. Stopped threads may hold libc's locks. `request_sample` gets the kernel's id of a
	 * thread; the library does not wait.
	 */
	int (*stop_world)(void *data);
	void (*start_world)(void *data);
	void (*request_sample)(uint32_t thread, void *data);

	/*
	 * Start-up. Called once, when no diagnostic port suspends the start-up: during the
	 * registration, or later in the thread that serves clients. A program with
	 * RP_DIAGNOSTICS_WAIT can thus continue its start-up without rp_diagnostics_wait().
	 */
	void (*start_up)(void *data);

	/*
	 * The process. `process_state` returns enum rp_host_process_state. It runs before each call
	 * of another callback, in the same context, and must be fast. Clients see `process_name`
	 * instead of the name of the program's file, and ringpipe's version with `runtime_version`
	 * appended. The strings are copied. `runtime_version` consists of letters, digits, '.'
	 * and '-'.
	 */
	int (*process_state)(void *data);
	const char *process_name;
	const char *runtime_version;

	/*
	 * Diagnostics commands of the host. `command_set` is from RP_HOST_COMMAND_SET_MIN to
	 * RP_HOST_COMMAND_SET_MAX, or 0: none. `command` runs in the thread that serves clients,
	 * and no other client is served meanwhile. It adds to the reply by rp_host_reply_put() and
	 * returns 0; -ENOSYS: unknown command; -EINVAL: bad payload; another -errno: failed. The
	 * client receives an error as an HRESULT without the reply.
	 */
	uint32_t command_set;
	uint32_t reserved;
	int (*command)(const struct rp_host_command *command, struct rp_host_reply *reply,
		       void *data);

	/*
	 * Memory of traces: the buffers and tables of sessions that write a trace, such as encoded
	 * blocks, stacks and names. The rings of a session are mapped instead, and strings that the
	 * caller frees are from malloc(3). Both or neither are set. `allocate` returns memory
	 * aligned for any type, or NULL, which makes the operation fail with -ENOMEM. They may run
	 * in any thread and in any state of the process after the registration, not in signal
	 * handlers. They must not call this library or the loader, because a mutex that
	 * constructors of libraries take may be held. Memory that `allocate` returned is passed to
	 * the `release` of the same table, even after rp_host_unregister(). Default: malloc(3) and
	 * free(3).
	 */
	void *(*allocate)(size_t bytes, void *data);
	void (*release)(void *memory, void *data);
};

#define RP_HOST_SIZE_V1 RP_SIZE_THROUGH_(struct rp_host, release)
#define RP_HOST_INIT RP_INIT_(struct rp_host)
#define RP_HOST_INTERPRETERS_MAX 8u

/*
 * Register the host. A process has at most one. The function copies the table, its ranges and its
 * strings. The data and the code of the callbacks must remain valid until the process ends, because
 * a call that has already begun may end after rp_host_unregister() returns.
 * @host: the table.
 *
 * Context: any thread, not a signal handler; allocates; calls `start_up`.
 * Return: 0; -EINVAL if the size is invalid, a mode or command set is unknown, a mode or command
 * set lacks its callbacks, an interpreter's range is empty, a string is too long (RP_NAME_MAX) or
 * has other characters, or one of `allocate` and `release` is missing; -EBUSY if there is a host;
 * -ENOMEM if an allocation fails.
 */
RP_PUBLIC int rp_host_register(const struct rp_host *host);

/*
 * Unregister the host. The defaults apply again. The function does nothing if there is no host.
 *
 * Context: any thread, not a signal handler.
 */
RP_PUBLIC void rp_host_unregister(void);

/*
 * Take a sample of the calling thread, at a safe point of the host. If `walk` returned -EAGAIN in
 * this thread since its last sample, the native frames are those of the interrupted instruction.
 * The function does nothing while no session requests samples.
 *
 * Call it after each such -EAGAIN and after each `request_sample`. If the sampler interrupts the
 * thread again before the call, the earlier sample is written without the host's frames.
 *
 * Context: any thread, not a signal handler; does not allocate or wait.
 * Return: 1 if a sample was written, else 0.
 */
RP_PUBLIC int rp_host_sample_now(void);

/*
 * Find the native function that contains an address. The function uses the unwind tables of the
 * loaded objects, so an interpreter can find the range of its loop also without symbols.
 * @address: an address of an instruction. For a return address, subtract 1.
 *
 * Context: any thread, not a signal handler.
 * Return: 0; -ENOENT if no loaded object has unwind rules for the address.
 */
RP_PUBLIC int rp_host_find_function(const void *address, struct rp_host_range *ret_range);

/*
 * Add bytes to the reply to a client.
 * @reply: the argument of rp_host.command. The library owns the reply.
 * @bytes: the bytes to add, which the function copies.
 * @size: their number.
 *
 * Context: in rp_host.command.
 * Return: 0; -EMSGSIZE if the reply would exceed 65,000 bytes; -ENOMEM if an allocation fails.
 */
RP_PUBLIC int rp_host_reply_put(struct rp_host_reply *reply, const void *bytes, size_t size);

/*
 * Sets an environment variable for a client, or removes it if `value` is NULL. `name` is not empty
 * and contains no '='. Both strings are valid only during the call.
 *
 * Context: the thread that serves clients. That is a thread of the library with all signals masked,
 * or the program's thread that calls rp_diagnostics_dispatch(). No client is served during the
 * call.
 * Return: 0, or -errno, which the client receives as an error.
 */
typedef int (*rp_host_environment_callback)(const char *name, const char *value, void *data);

/*
 * Let clients change the environment while the program runs. setenv(3) is unsafe while another
 * thread calls getenv(3), and only the program knows when no thread does. Without a callback, the
 * library therefore refuses such requests, except while the program's start-up is suspended. A NULL
 * `callback` removes the callback; a call that has already begun may end after this function
 * returns.
 * @callback: the callback, or NULL.
 * @data: an argument for each call of it.
 *
 * Context: any thread, even in the callback; not a signal handler.
 */
RP_PUBLIC void rp_host_set_environment_callback(rp_host_environment_callback callback, void *data);

/*
 * Register generated code. The code has `bytes` bytes from `address` on. Stacks in traces then have
 * its name, and perf(1) shows the name while a client has perf maps enabled, now or later. The code
 * must stay readable until rp_code_remove(). A new registration replaces an earlier one of the same
 * address. The function copies the name and replaces control characters in the copy with '?'.
 * @name: the name of the function, for a line of the map.
 *
 * Context: any thread, not a signal handler. Allocates, and writes files in /tmp while perf maps
 * are enabled.
 * Return: 0, even if those files cannot be written; -EINVAL if there is no name or `bytes` is 0;
 * -ENOMEM if an allocation fails.
 */
RP_PUBLIC int rp_code_add(const void *address, size_t bytes, const char *name);

/*
 * Remove the registration of the code at an address. Call this function before the memory is
 * reused.
 * @address: the address that rp_code_add() got.
 *
 * Context: as rp_code_add().
 * Return: 0; -ENOENT if no code is registered at the address.
 */
RP_PUBLIC int rp_code_remove(const void *address);

/* One copy of this library in the process. Later versions add members at the end. */
struct rp_host_copy {
	uint32_t size;
	uint32_t order;		/* 1: loaded first, 2: the second copy, and so on */
	const char *path;	/* of the object that contains it; "": the program */
	uint32_t is_caller;	/* 1: the copy whose function was called */
	uint32_t reserved;
};

#define RP_HOST_COPY_SIZE_V1 RP_SIZE_THROUGH_(struct rp_host_copy, reserved)

typedef int (*rp_host_copy_callback)(const struct rp_host_copy *copy, void *data);

/*
 * List the copies of this library in the process: the shared library, and static copies in the
 * program or in plugins with hidden symbols. Each copy has its own events, counters and sessions.
 * Only the first copy has the diagnostics socket, so clients see only its providers. Start a
 * session of another copy from the object that contains that copy.
 *
 * A plugin can call this function to find out whether it uses a second copy: in the entry with
 * `is_caller` 1, `order` is then above 1.
 * @callback: the function to call for each copy.
 * @data: an argument for each call of it.
 *
 * Context: any thread, not a signal handler. The callback runs while the loader's lock is held, and
 * must not load or unload libraries. The list does not contain copies in other namespaces of
 * dlmopen(3).
 * Return: 0, or the first result of the callback that is not 0, which ends the list.
 */
RP_PUBLIC int rp_host_list_copies(rp_host_copy_callback callback, void *data);

RP_END_DECLS

#endif
