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
static void *handlers[NSIG];		/* the program's; atomic */

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

	inbox_signals_delivered(number, info ? info->si_code : 0,
				has_sender ? (uint32_t)info->si_pid : 0, handler);
	errno = saved_errno;
}

static void deliver(int number)
{
	void *handler = __atomic_load_n(&handlers[number], __ATOMIC_RELAXED);

	write_event(number, NULL, handler);
	((sighandler_t)handler)(number);
}

static void deliver_info(int number, siginfo_t *info, void *context)
{
	void *handler = __atomic_load_n(&handlers[number], __ATOMIC_RELAXED);

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

static bool is_wrapped(int number, const void *handler, const void *caller)
{
	return number > 0 && number < NSIG && is_function(handler) &&
	       !rp_inbox_thread.is_of_engine && !rp_inbox_is_engine(caller);
}

INBOX_EXPORT int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
	void *const previous = number > 0 && number < NSIG ?
			       __atomic_load_n(&handlers[number], __ATOMIC_RELAXED) : NULL;
	struct sigaction wrapped;
	int ret;

	if (INBOX_UNLIKELY(!next_sigaction))
		rp_inbox_signals_init();
	if (action && is_wrapped(number, (const void *)action->sa_handler,
				 __builtin_return_address(0))) {
		wrapped = *action;
		__atomic_store_n(&handlers[number], (void *)action->sa_handler, __ATOMIC_RELAXED);
		if (wrapped.sa_flags & SA_SIGINFO)
			wrapped.sa_sigaction = deliver_info;
		else
			wrapped.sa_handler = deliver;
		ret = next_sigaction(number, &wrapped, old);
		if (ret != 0)
			__atomic_store_n(&handlers[number], previous, __ATOMIC_RELAXED);
	} else {
		ret = next_sigaction(number, action, old);
	}
	if (ret == 0 && old && is_ours((const void *)old->sa_handler))
		old->sa_handler = (sighandler_t)previous;
	return ret;
}

INBOX_EXPORT sighandler_t signal(int number, sighandler_t handler)
{
	void *const previous = number > 0 && number < NSIG ?
			       __atomic_load_n(&handlers[number], __ATOMIC_RELAXED) : NULL;
	sighandler_t old;

	if (INBOX_UNLIKELY(!next_sigaction))
		rp_inbox_signals_init();
	if (!is_wrapped(number, (const void *)handler, __builtin_return_address(0))) {
		old = next_signal(number, handler);
	} else {
		__atomic_store_n(&handlers[number], (void *)handler, __ATOMIC_RELAXED);
		old = next_signal(number, deliver);
		if (old == SIG_ERR)
			__atomic_store_n(&handlers[number], previous, __ATOMIC_RELAXED);
	}
	return is_ours((const void *)old) ? (sighandler_t)previous : old;
}
