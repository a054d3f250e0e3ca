/* SPDX-License-Identifier: MIT */
/*
 * The host of components: a program that loads a component, whose events component.h describes, and
 * gives it providers and functions.
 */
#ifndef RINGPIPE_COMPONENT_HOST_H
#define RINGPIPE_COMPONENT_HOST_H

#include <ringpipe/component.h>
#include <ringpipe/provider.h>
#include <ringpipe/types.h>

RP_BEGIN_DECLS

struct rp_component_link;

/* Options of rp_component_attach(). */
struct rp_component_options {
	uint32_t size;
	uint32_t reserved;
	struct rp_provider *provider;		/* the role RP_COMPONENT_DEFAULT */
	struct rp_provider *private_provider;	/* RP_COMPONENT_PRIVATE; NULL: always off */
	/*
	 * The functions for known events, or NULL. The struct is a contract between this host and
	 * this component. Its first member is `uint32_t size`, and it must outlive the component.
	 */
	const void *events;
	void *data;				/* the first argument of these functions */
};

#define RP_COMPONENT_OPTIONS_SIZE_V1 RP_SIZE_THROUGH_(struct rp_component_options, data)
#define RP_COMPONENT_OPTIONS_INIT RP_INIT_(struct rp_component_options)

/*
 * Start a component and connect it with providers. The function calls the component's entry, and
 * then its control() with the present state of each provider. From then on, the component receives
 * each change that a callback of the provider would receive (rp_provider_callback), and the
 * provider's own callback remains. Call rp_tracers_watch() to include tracers of the kernel. In a
 * forked child, the component keeps the parent's state until a session starts there; the host's
 * events are off.
 *
 * Several components may use the same provider. They share its Dynamic… events, and each of them
 * can be detached while the others continue.
 *
 * Each provider gets six more events, which contain the component's dynamic events: DynamicAlways,
 * DynamicCritical, DynamicError, DynamicWarning, DynamicInformational and DynamicVerbose, one for
 * each level. They have keywords 0 and the fields `name` and `payload`. In a nettrace file, an
 * event with the component's own name and fields follows each of them whose payload describes
 * itself.
 * @entry: the component's function, usually dlsym(handle, RP_COMPONENT_ENTRY).
 * @options: copied, except what it points to.
 *
 * Context: any thread, not a signal handler; allocates; calls the component.
 * Return: 0; -EINVAL if the size of the options is invalid, there is no entry or provider, both
 * providers are the same, or the component's struct is too short, and the component was stopped
 * again; -EEXIST if this component is attached, or a provider has events with the names above;
 * -EDEADLK if called by the callback of one of these providers, and the component was stopped
 * again; -ENOMEM if an allocation fails; or the entry's error.
 */
RP_PUBLIC int rp_component_attach(rp_component_entry entry,
				  const struct rp_component_options *options,
				  struct rp_component_link **ret_link);

/*
 * Stop a component. The function turns the component's providers off by control(), and calls its
 * stop(). After the function has returned, the component may be unloaded, and the providers may be
 * destroyed if no other component uses them. Call it before that in any case.
 * @link: the component; NULL is allowed.
 *
 * If a thread has left fire_dynamic() by siglongjmp(3), or was inside it when a child was forked
 * and the child detaches the component, the function waits for a second. The provider then keeps
 * its Dynamic… events, and no component can be attached to it after its last one was detached.
 *
 * Context: any thread, not a signal handler. Waits for control() in other threads, and for threads
 * inside fire_dynamic().
 * Return: 0; -EDEADLK if called by control(), by stop() or by the provider's own callback, or while
 * another call for the same link runs; this call then changes nothing.
 */
RP_PUBLIC int rp_component_detach(struct rp_component_link *link);

RP_END_DECLS

#endif
