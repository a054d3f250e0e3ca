/* SPDX-License-Identifier: MIT */
/*
 * Static keys: sites of events that are a jump while the event is wanted, and an instruction
 * without effect otherwise.
 *
 * In the object file each site is a jump to code that tests the enable word. A jump is therefore
 * always correct, and this module only has to ensure that no site is passed without the jump while
 * its event is wanted. Sessions and exporters update the sites when they enable words. A thread
 * that checks ten times a second handles the words that they disabled and the words that the kernel
 * changed (tracers in the upper 16 bits, user_events). Without that thread, all sites are jumps.
 */
#ifndef RP_CORE_KEYS_H
#define RP_CORE_KEYS_H

struct rp_object;

typedef void rp_keys_warn_function(const char *what, const char *value, int error);

/*
 * Register an object's sites, and start the thread. If memory is exhausted, or the thread finds
 * that code cannot be changed, the sites remain jumps.
 * @warn_by: NULL: register the sites only if the processor's manual allows changes of code
 *	(rp_code_is_promised()); otherwise they remain jumps. Not NULL: RINGPIPE_STATIC_KEYS=1
 *	requests static keys, so register the sites on every processor. If the thread then finds
 *	that code cannot be changed, it calls `warn_by`, once for all objects.
 */
void rp_keys_register(const struct rp_object *object, rp_keys_warn_function *warn_by);
void rp_keys_unregister(const struct rp_object *object);

/*
 * Wait until the thread has found out whether code can be changed. Return: 0, also if there are no
 * sites or code cannot be changed; or the error of the thread's creation.
 */
int rp_keys_prepare(void);

/* Make each site match the word of its event. The caller holds rp_core.lock. */
void rp_keys_settle(void);

/* Start the thread again in a forked child. If that fails, make all sites jumps. */
void rp_keys_fork_child(void);

#endif
