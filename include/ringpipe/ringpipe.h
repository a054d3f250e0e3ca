/* SPDX-License-Identifier: MIT */
/*
 * Includes all headers for a program that writes events. Programs that read traces include reader.h
 * separately.
 *
 * No function declared here is a cancellation point, and callbacks run with cancellation disabled.
 * A request of pthread_cancel(3) that arrives during such a function takes effect after the
 * function.
 */
#ifndef RINGPIPE_RINGPIPE_H
#define RINGPIPE_RINGPIPE_H

#include <ringpipe/activity.h>
#include <ringpipe/component_host.h>
#include <ringpipe/counter.h>
#include <ringpipe/diagnostics.h>
#include <ringpipe/event.h>
#include <ringpipe/exporter.h>
#include <ringpipe/field.h>
#include <ringpipe/host.h>
#include <ringpipe/json_events.h>
#include <ringpipe/listener.h>
#include <ringpipe/log.h>
#include <ringpipe/prepare.h>
#include <ringpipe/process_context.h>
#include <ringpipe/provider.h>
#include <ringpipe/session.h>
#include <ringpipe/span.h>
#include <ringpipe/trigger.h>
#include <ringpipe/types.h>

#endif
