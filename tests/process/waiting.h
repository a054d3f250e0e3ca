/* SPDX-License-Identifier: MIT */
/* Definitions shared by the program and its library. */
#ifndef PROCESS_WAITING_H
#define PROCESS_WAITING_H

#include <ringpipe/ringpipe.h>

#define WRITERS 4u
#define MAIN_STREAM WRITERS		/* the stream of the thread that ends the process */
#define PLUGIN_STREAM (WRITERS + 1)
#define STREAMS (WRITERS + 2)

#define FILLING_BYTES 2000u
#define WRITER_EVENTS 2000u		/* 16 MB of all writers; rings, sink and socket hold 3 MB */
#define PLUGIN_EVENTS 2500u

#endif
