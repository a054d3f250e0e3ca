/* SPDX-License-Identifier: MIT */
/*
 * Static keys: sites of events that are a jump while the event is wanted, and an instruction
 * without effect while it is not.
 *
 * In the file each is a jump, to code that looks at the enable word. So it is right whatever this
 * module does; what has to be kept is that no site is passed by while its event is wanted. Sessions
 * and exporters update the sites when they enable words. A thread that looks ten times a second
 * handles words that they disabled, and words that the kernel enabled (tracers in the upper 16
 * bits, user_events). Without that thread all sites are jumps.
 */
#ifndef RP_CORE_KEYS_H
#define RP_CORE_KEYS_H

struct rp_object;

typedef void rp_keys_warn_function(const char *what, const char *value, int error);

/*
 * Registers an object's sites. They stay jumps without memory or where code cannot be changed.
 * `warn_by` is set if RINGPIPE_STATIC_KEYS=1 requested static keys: then the processor is not
 * checked (see rp_code_is_promised()), and other obstacles are reported once, on a library thread.
 */
void rp_keys_register(const struct rp_object *object, rp_keys_warn_function *warn_by);
void rp_keys_unregister(const struct rp_object *object);

/*
 * Wait until the thread has found out whether code can be changed. Return: 0, also where there are
 * no sites.
 */
int rp_keys_prepare(void);

/* With rp_core.lock held: makes each site what its event's word says. */
void rp_keys_settle(void);

/* In a forked child: the thread is not there any more. */
void rp_keys_fork_child(void);

#endif
