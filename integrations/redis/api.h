/* SPDX-License-Identifier: MIT */
/*
 * The part of the module API of redis 7.0 and Valkey 8 that this module uses. The server finds its
 * functions by name, so the module is built without headers of the server. Redis documents the API
 * at https://redis.io/docs/latest/develop/reference/modules/modules-api-ref/.
 */
#ifndef REDIS_RINGPIPE_API_H
#define REDIS_RINGPIPE_API_H

#include <stdint.h>
#include <stddef.h>

#define REDIS_OK 0
#define REDIS_ERROR 1
#define REDIS_API_VERSION 1

struct redis_context;
struct redis_string;
struct redis_reply;
struct redis_filter;		/* a registered command filter */
struct redis_filtered;		/* the command that a filter sees */
struct redis_info;
struct redis_server_info;

struct redis_event {
	uint64_t id;
	uint64_t version;
};

/* Ids of events, with the subevents that the module uses. */
enum {
	REDIS_ROLE_CHANGED = 0,		/* 0: now a master */
	REDIS_PERSISTENCE = 1,		/* enum redis_persistence */
	REDIS_FLUSH = 2,		/* 0: start, 1: end */
	REDIS_LOADING = 3,		/* 0: RDB, 1: AOF, 2: from the master, 3: end, 4: failure */
	REDIS_CLIENT_CHANGE = 4,	/* 0: connected, 1: disconnected */
	REDIS_SHUTDOWN = 5,
	REDIS_REPLICA_CHANGE = 6,	/* 0: online, 1: offline */
	REDIS_MASTER_LINK = 7,		/* 0: up, 1: down */
	REDIS_CRON = 8,
	REDIS_FORK_CHILD = 13,		/* 0: born, 1: died */
	REDIS_EVENT_LOOP = 15,		/* 0: before the server waits, 1: after */
	REDIS_CONFIG = 16,
};

enum redis_persistence {
	REDIS_RDB_START = 0,
	REDIS_AOF_START = 1,
	REDIS_SYNC_RDB_START = 2,
	REDIS_PERSISTENCE_ENDED = 3,
	REDIS_PERSISTENCE_FAILED = 4,
	REDIS_SYNC_AOF_START = 5,
};

#define REDIS_NOTIFY_EXPIRED (1 << 8)
#define REDIS_NOTIFY_EVICTED (1 << 9)

#define REDIS_READABLE 1		/* a mask of RedisModule_EventLoopAdd() */
#define REDIS_CONTEXT_SCRIPT (1 << 0)	/* RedisModule_GetContextFlags(): a script is running */
#define REDIS_FILTER_NO_SELF (1 << 0)	/* omits the commands that this module calls */

/* The data of REDIS_CLIENT_CHANGE. */
struct redis_client_info {
	uint64_t version;
	uint64_t flags;
	uint64_t id;
	char address[46];
	uint16_t port;
	uint16_t database;
};

/* The data of REDIS_ROLE_CHANGED. */
struct redis_replication_info {
	uint64_t version;
	int is_master;
	char *master_host;
	int master_port;
};

/* The data of REDIS_FLUSH. */
struct redis_flush_info {
	uint64_t version;
	int32_t is_synchronous;
	int32_t database;		/* -1: all */
};

typedef int (*redis_command_callback)(struct redis_context *context, struct redis_string **argv,
				      int argc);
typedef void (*redis_filter_callback)(struct redis_filtered *command);
typedef void (*redis_event_callback)(struct redis_context *context, struct redis_event event,
				     uint64_t subevent, void *data);
typedef int (*redis_notify_callback)(struct redis_context *context, int type, const char *event,
				     struct redis_string *key);
typedef void (*redis_loop_callback)(int fd, void *data, int mask);
typedef void (*redis_info_callback)(struct redis_info *info, int for_crash_report);

/* F(return type, name, parameters): the functions whose names begin with RedisModule_. */
#define REDIS_FUNCTIONS(F) \
	F(void, SetModuleAttribs, (struct redis_context *, const char *name, int version, \
				   int api_version)) \
	F(int, IsModuleNameBusy, (const char *name)) \
	F(void, Log, (struct redis_context *, const char *level, const char *format, ...)) \
	F(void, Free, (void *)) \
	F(struct redis_context *, GetDetachedThreadSafeContext, (struct redis_context *)) \
	F(int, CreateCommand, (struct redis_context *, const char *name, redis_command_callback, \
			       const char *flags, int first_key, int last_key, int key_step)) \
	F(int, WrongArity, (struct redis_context *)) \
	F(int, ReplyWithError, (struct redis_context *, const char *)) \
	F(int, ReplyWithSimpleString, (struct redis_context *, const char *)) \
	F(unsigned long long, GetClientId, (struct redis_context *)) \
	F(int, GetContextFlags, (struct redis_context *)) \
	F(int, GetSelectedDb, (struct redis_context *)) \
	F(const char *, StringPtrLen, (const struct redis_string *, size_t *bytes)) \
	F(struct redis_filter *, RegisterCommandFilter, \
	  (struct redis_context *, redis_filter_callback, int flags)) \
	F(int, UnregisterCommandFilter, (struct redis_context *, struct redis_filter *)) \
	F(int, CommandFilterArgsCount, (struct redis_filtered *)) \
	F(struct redis_string *, CommandFilterArgGet, (struct redis_filtered *, int index)) \
	F(int, CommandFilterArgDelete, (struct redis_filtered *, int index)) \
	F(int *, GetCommandKeys, (struct redis_context *, struct redis_string **argv, int argc, \
				  int *count)) \
	F(int, SubscribeToServerEvent, (struct redis_context *, struct redis_event, \
					redis_event_callback)) \
	F(int, SubscribeToKeyspaceEvents, (struct redis_context *, int types, \
					   redis_notify_callback)) \
	F(int, EventLoopAdd, (int fd, int mask, redis_loop_callback, void *data)) \
	F(int, EventLoopDel, (int fd, int mask)) \
	F(int, RegisterInfoFunc, (struct redis_context *, redis_info_callback)) \
	F(int, InfoAddSection, (struct redis_info *, const char *name)) \
	F(int, InfoAddFieldCString, (struct redis_info *, const char *name, const char *value)) \
	F(int, InfoAddFieldULongLong, (struct redis_info *, const char *name, \
				       unsigned long long value)) \
	F(struct redis_server_info *, GetServerInfo, (struct redis_context *, \
						      const char *section)) \
	F(void, FreeServerInfo, (struct redis_context *, struct redis_server_info *)) \
	F(unsigned long long, ServerInfoGetFieldUnsigned, (struct redis_server_info *, \
							   const char *name, int *error)) \
	F(const char *, ServerInfoGetFieldC, (struct redis_server_info *, const char *name)) \
	F(struct redis_reply *, Call, (struct redis_context *, const char *command, \
				       const char *format, ...)) \
	F(int, ReplyWithCallReply, (struct redis_context *, struct redis_reply *)) \
	F(void, FreeCallReply, (struct redis_reply *)) \
	F(size_t, CallReplyLength, (struct redis_reply *)) \
	F(struct redis_reply *, CallReplyArrayElement, (struct redis_reply *, size_t index)) \
	F(long long, CallReplyInteger, (struct redis_reply *)) \
	F(const char *, CallReplyStringPtr, (struct redis_reply *, size_t *bytes)) \
	F(const char *, CallReplyProto, (struct redis_reply *, size_t *bytes))

/* Redis from 7.2 on and Valkey have this function. */
#define REDIS_OPTIONAL_FUNCTIONS(F) \
	F(unsigned long long, CommandFilterGetClientId, (struct redis_filtered *))

#define REDIS_MEMBER(type, name, parameters) type (*name) parameters;

struct redis_api {
	REDIS_FUNCTIONS(REDIS_MEMBER)
	REDIS_OPTIONAL_FUNCTIONS(REDIS_MEMBER)
};

#endif
