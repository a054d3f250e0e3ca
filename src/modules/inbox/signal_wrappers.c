/* SPDX-License-Identifier: MIT */
/*
 * Signals that the program handles. The kernel calls a function of this file, which writes the
 * event and calls the program's handler. The wrappers replace handlers at all times, because a
 * session may start later, and show the program its own handlers.
 */
#include <errno.h>
#include <signal.h>

#include <ringpipe/event.h>

#include "modules/inbox/inbox.h"

/* `code` and `sender` are 0 for a handler without SA_SIGINFO. */
RP_PROVIDER(inbox_signals, "ringpipe-signals");
RP_EVENT(inbox_signals, delivered, 1, RP_LEVEL_INFORMATIONAL, 0, RP_I32(signal), RP_I32(code),
	 RP_U32(sender), RP_POINTER(handler));

typedef void info_handler(int number, siginfo_t *info, void *context);

static int (*next_sigaction)(int number, const struct sigaction *action, struct sigaction *old);
static sighandler_t (*next_signal)(int number, sighandler_t handler);
/*
 * The program's handlers; atomic. Those with three arguments have a table of their own, so that a
 * signal that arrives while the program replaces one kind by the other finds the right kind.
 */
static void *plain_handlers[NSIG], *info_handlers[NSIG];

void rp_inbox_signals_init(void)
{
	next_signal = rp_inbox_next("signal");
	next_sigaction = rp_inbox_next("sigaction");
}

static void write_event(int number, const siginfo_t *info, const void *handler)
{
	const int saved_errno = errno;
	const bool has_sender = info && (info->si_code == SI_USER || info->si_code == SI_QUEUE ||
					 info->si_code == SI_TKILL);

	if (inbox_signals_delivered_enabled() && !rp_inbox_is_vfork_child())
		inbox_signals_delivered(number, info ? info->si_code : 0,
					has_sender ? (uint32_t)info->si_pid : 0, handler);
	errno = saved_errno;
}

/* Linux on x86-64 passes all arguments also without SA_SIGINFO, and programs use the context. */
static void deliver(int number, siginfo_t *info, void *context)
{
	void *handler = __atomic_load_n(&plain_handlers[number], __ATOMIC_RELAXED);

	write_event(number, NULL, handler);
	((info_handler *)handler)(number, info, context);
}

static void deliver_info(int number, siginfo_t *info, void *context)
{
	void *handler = __atomic_load_n(&info_handlers[number], __ATOMIC_RELAXED);

	write_event(number, info, handler);
	((info_handler *)handler)(number, info, context);
}

static bool is_ours(const void *handler)
{
	return handler == (const void *)deliver || handler == (const void *)deliver_info;
}

/* Return: whether it is a function of the program. */
static bool is_function(const void *handler)
{
	return handler != (const void *)SIG_DFL && handler != (const void *)SIG_IGN &&
	       handler != (const void *)SIG_ERR && !is_ours(handler);
}

/*
 * Return: whether a function without a wrapper, such as sigset(3), replaced a handler of this file.
 * The replacement may call its predecessor, which must not become a later handler.
 */
static bool is_replaced(int number)
{
	struct sigaction now;

	return (__atomic_load_n(&plain_handlers[number], __ATOMIC_RELAXED) ||
		__atomic_load_n(&info_handlers[number], __ATOMIC_RELAXED)) &&
	       next_sigaction(number, NULL, &now) == 0 && is_function((const void *)now.sa_handler);
}

static bool is_wrapped(int number, const void *handler, const void *caller)
{
	return number > 0 && number < NSIG && is_function(handler) &&
	       !rp_inbox_thread.is_of_engine && !rp_inbox_is_engine(caller) &&
	       !rp_inbox_is_vfork_child() && !is_replaced(number);
}

/* The program's handlers of one signal. */
struct inbox_handlers {
	void *plain, *info;
};

static struct inbox_handlers handlers_of(int number)
{
	struct inbox_handlers handlers = { NULL, NULL };

	if (number > 0 && number < NSIG) {
		handlers.plain = __atomic_load_n(&plain_handlers[number], __ATOMIC_RELAXED);
		handlers.info = __atomic_load_n(&info_handlers[number], __ATOMIC_RELAXED);
	}
	return handlers;
}

/* Return: what the program installed, for a handler that the kernel had before. */
static sighandler_t shown(sighandler_t old, const struct inbox_handlers *before)
{
	if ((const void *)old == (const void *)deliver)
		return (sighandler_t)before->plain;
	return (const void *)old == (const void *)deliver_info ? (sighandler_t)before->info : old;
}

INBOX_EXPORT int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
	const struct inbox_handlers before = handlers_of(number);
	void **handler = NULL, *previous = NULL;
	struct sigaction wrapped;
	int ret;

	if (INBOX_UNLIKELY(!next_sigaction))
		rp_inbox_signals_init();
	if (action && is_wrapped(number, (const void *)action->sa_handler,
				 __builtin_return_address(0))) {
		const bool has_info = action->sa_flags & SA_SIGINFO;

		wrapped = *action;
		handler = has_info ? &info_handlers[number] : &plain_handlers[number];
		previous = has_info ? before.info : before.plain;
		__atomic_store_n(handler, (void *)action->sa_handler, __ATOMIC_RELAXED);
		wrapped.sa_sigaction = has_info ? deliver_info : deliver;
		action = &wrapped;
	}
	ret = next_sigaction(number, action, old);
	if (ret != 0 && handler)
		__atomic_store_n(handler, previous, __ATOMIC_RELAXED);
	if (ret == 0 && old)
		old->sa_handler = shown(old->sa_handler, &before);
	return ret;
}

INBOX_EXPORT sighandler_t signal(int number, sighandler_t handler)
{
	const struct inbox_handlers before = handlers_of(number);
	sighandler_t old;

	if (INBOX_UNLIKELY(!next_sigaction))
		rp_inbox_signals_init();
	if (!is_wrapped(number, (const void *)handler, __builtin_return_address(0)))
		return shown(next_signal(number, handler), &before);
	__atomic_store_n(&plain_handlers[number], (void *)handler, __ATOMIC_RELAXED);
	old = next_signal(number, (sighandler_t)(void *)deliver);
	if (old == SIG_ERR)
		__atomic_store_n(&plain_handlers[number], before.plain, __ATOMIC_RELAXED);
	return shown(old, &before);
}
