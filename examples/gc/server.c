/* SPDX-License-Identifier: MIT */
/*
 * usage: gc_server COLLECTOR [PORT]
 *
 * A small HTTP server that allocates from a garbage collector. The collector is a component: the
 * server loads the library COLLECTOR, which does not link ringpipe, and writes its events. The
 * server prints the port on which it listens, and at its end the number of collections.
 *
 *	GET /KEY	make a document and keep it in a cache of 64 documents
 *	GET /collect	request a collection
 *	GET /quit	end the server
 */
#include <ringpipe/ringpipe.h>

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gc_contract.h"
#include "runtime_events.h"

#define WORKERS 3
#define TRACERS_MS 100
#define CACHED 64u
#define PARAGRAPHS 200u
#define PARAGRAPH_BYTES 500u

/* The server's knowledge, which it adds to the events of its collector. */
struct heap_owner {
	uint16_t instance;
	enum gc_reason cause;		/* of a collection that the server requests */
};

/* A document is a list of paragraphs, all from the collector. */
struct paragraph {
	struct paragraph *next;
	char text[PARAGRAPH_BYTES];
};

static struct heap_owner owner = { .instance = 1, .cause = GC_REASON_INDUCED };
static const struct gc_functions *gc;
static struct paragraph *cache[CACHED];	/* the collector looks for pointers in static data */
static int listening;

static void suspend_begin(void *data, uint32_t collection)
{
	const struct heap_owner *its = data;

	runtime_GCSuspendEEBegin(GC_SUSPEND_FOR_COLLECTION, collection, its->instance);
}

static void suspend_end(void *data)
{
	runtime_GCSuspendEEEnd(((const struct heap_owner *)data)->instance);
}

static void start(void *data, uint32_t collection, bool is_requested)
{
	const struct heap_owner *its = data;

	runtime_GCStart(collection, GC_OLDEST_GENERATION,
			is_requested ? its->cause : GC_REASON_ALLOCATION, GC_TYPE_BLOCKING,
			its->instance, 0);
}

static void end(void *data, uint32_t collection)
{
	const struct heap_owner *its = data;

	runtime_GCEnd(collection, GC_OLDEST_GENERATION, its->instance);
}

/* The collector has no generations, so its heap is the oldest one. */
static void heap_size(void *data, uint64_t heap_bytes)
{
	const struct heap_owner *its = data;

	runtime_GCHeapStats(0, 0, 0, 0, heap_bytes, 0, 0, 0, 0, 0, 0, 0, 0, its->instance);
}

static void restart_begin(void *data)
{
	runtime_GCRestartEEBegin(((const struct heap_owner *)data)->instance);
}

static void restart_end(void *data)
{
	runtime_GCRestartEEEnd(((const struct heap_owner *)data)->instance);
}

static const struct gc_events events = {
	.size = sizeof(events),
	.suspend_begin = suspend_begin,
	.suspend_end = suspend_end,
	.start = start,
	.end = end,
	.heap_size = heap_size,
	.restart_begin = restart_begin,
	.restart_end = restart_end,
};

static void die(const char *what, const char *why)
{
	fprintf(stderr, "gc_server: %s: %s\n", what, why);
	exit(1);
}

static struct paragraph *make_document(const char *key)
{
	struct paragraph *document = NULL;

	for (unsigned int i = 0; i < PARAGRAPHS; i++) {
		struct paragraph *paragraph = gc->allocate(sizeof(*paragraph));

		if (!paragraph)
			die("allocate", strerror(ENOMEM));
		snprintf(paragraph->text, sizeof(paragraph->text), "%s, paragraph %u", key, i);
		paragraph->next = document;
		document = paragraph;
	}
	return document;
}

/* Put a document into the cache. Return: the document that it replaces, or NULL. */
static struct paragraph *replace_document(const char *key, struct paragraph *document)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct paragraph *previous;
	unsigned int hash = 0;

	for (const char *c = key; *c; c++)
		hash = hash * 31 + (unsigned char)*c;
	pthread_mutex_lock(&lock);
	previous = cache[hash % CACHED];
	cache[hash % CACHED] = document;
	pthread_mutex_unlock(&lock);
	return previous;
}

/* Check that the collector has left a document alone. */
static void check_document(const struct paragraph *document)
{
	unsigned int paragraphs = 0;

	if (!document)
		return;
	for (; document; document = document->next)
		paragraphs += strstr(document->text, ", paragraph ") != NULL;
	if (paragraphs != PARAGRAPHS)
		die("document", "paragraphs are missing");
}

/* Return: false: the server is to end. */
static bool serve(int connection, const char *key)
{
	static const char done[] = "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nok\n";
	bool goes_on = strcmp(key, "quit") != 0;

	if (strcmp(key, "collect") == 0)
		gc->collect();
	else if (goes_on)
		check_document(replace_document(key, make_document(key)));
	(void)send(connection, done, sizeof(done) - 1, MSG_NOSIGNAL);
	return goes_on;
}

static void *work(void *data)
{
	char request[1024], key[64];
	bool goes_on = true;

	if (gc->add_thread() != 0)
		die("collector", "refuses a thread");
	while (goes_on) {
		int connection = accept(listening, NULL, NULL);
		ssize_t got;

		if (connection < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;	/* the collector interrupts threads by signals */
		if (connection < 0)
			break;
		do
			got = recv(connection, request, sizeof(request) - 1, 0);
		while (got < 0 && errno == EINTR);
		request[got > 0 ? got : 0] = '\0';
		if (sscanf(request, "GET /%63[a-zA-Z0-9]", key) == 1)
			goes_on = serve(connection, key);
		close(connection);
	}
	/* Wake the other workers, whose accept() then fails. */
	shutdown(listening, SHUT_RDWR);
	gc->remove_thread();
	return data;
}

static void listen_on(uint16_t port)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t bytes = sizeof(address);

	listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listening < 0 || bind(listening, (struct sockaddr *)&address, bytes) != 0 ||
	    listen(listening, 128) != 0 ||
	    getsockname(listening, (struct sockaddr *)&address, &bytes) != 0)
		die("listen", strerror(errno));
	printf("port %u, process %d\n", ntohs(address.sin_port), (int)getpid());
	fflush(stdout);
}

static struct rp_component_link *attach(const char *path)
{
	struct rp_component_options options = RP_COMPONENT_OPTIONS_INIT;
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	struct rp_component_link *link;
	int ret;

	if (!library)
		die("dlopen", dlerror());
	gc = dlsym(library, "gc_functions");
	if (!gc)
		die(path, "is no collector");
	options.provider = runtime_provider();
	options.private_provider = runtime_private_provider();
	options.events = &events;
	options.data = &owner;
	ret = rp_component_attach((rp_component_entry)dlsym(library, RP_COMPONENT_ENTRY), &options,
				  &link);
	if (ret != 0)
		die(path, strerror(-ret));
	gc->init();
	(void)rp_tracers_watch(TRACERS_MS);	/* bpftrace and perf enable events, too */
	return link;
}

int main(int argc, char **argv)
{
	struct rp_component_link *link;
	pthread_t workers[WORKERS];

	if (argc < 2 || argc > 3)
		die("usage", "gc_server COLLECTOR [PORT]");
	link = attach(argv[1]);
	listen_on((uint16_t)(argc == 3 ? atoi(argv[2]) : 0));
	for (int i = 0; i < WORKERS; i++) {
		if (pthread_create(&workers[i], NULL, work, NULL) != 0)
			die("pthread_create", strerror(errno));
	}
	for (int i = 0; i < WORKERS; i++)
		pthread_join(workers[i], NULL);
	printf("collections %llu\n", (unsigned long long)gc->collections());
	(void)rp_component_detach(link);
	return 0;
}
