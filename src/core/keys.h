/* SPDX-License-Identifier: MIT */
/*
 * Static keys: sites of events that are a jump while the event is wanted, and an instruction
 * without effect while it is not.
 *
 * In the file each is a jump, to code that looks at the enable word. So it is right whatever this
 * module does; what has to be kept is that no site is passed by while its event is wanted. Sessions
 * and exporters settle the sites when they turned words on. What they turned off, and what the
 * kernel turned on by itself (tracers in the upper 16 bits, user_events), is left to a thread that
 * looks ten times a second. Without that thread all sites are jumps.
 */
#ifndef RP_CORE_KEYS_H
#define RP_CORE_KEYS_H

struct rp_object;

typedef void rp_keys_complain(const char *what, const char *value, int error);

/*
 * An object's sites. Without memory, or where code cannot be changed, they stay jumps. With
 * `complain_by` somebody has asked for it by RINGPIPE_STATIC_KEYS=1: he answers for the processor
 * (see rp_code_is_promised()), and is told what else stands in the way, once, on a thread of ours.
 */
void rp_keys_register(const struct rp_object *object, rp_keys_complain *complain_by);
void rp_keys_unregister(const struct rp_object *object);

/* With rp_core.lock held: makes each site what its event's word says. */
void rp_keys_settle(void);

/* In a forked child: the thread is not there any more. */
void rp_keys_fork_child(void);

#endif
