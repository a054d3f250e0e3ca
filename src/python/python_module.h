/* SPDX-License-Identifier: MIT */
/*
 * The Python module `ringpipe`: the reader's events as objects of Python.
 *
 * The module uses the stable ABI of Python 3.11, so one file serves that version and all later
 * ones. It contains the reader itself instead of depending on libringpipe.so: that library would
 * make each Python program a process that clients can trace.
 *
 * Context of all functions here: the thread holds the GIL, unless a function states otherwise.
 */
#ifndef RP_PYTHON_MODULE_H
#define RP_PYTHON_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>

#include <ringpipe/reader.h>

#include "tools/trace/compression.h"
#include "tools/trace/json_event.h"

/* Objects of the module, which live as long as the process. */
struct rp_py_objects {
	PyObject *error;	/* ringpipe.Error */
	PyObject *incomplete;	/* ringpipe.Incomplete */
	PyObject *uuid;		/* uuid.UUID */
	PyObject *timedelta;	/* datetime.timedelta */
	PyObject *epoch;	/* 1970-01-01 UTC, a datetime.datetime */
	/*
	 * Names of attributes. Python caches a look-up by the address of its name, so a new string
	 * for each look-up would fill the cache.
	 */
	PyObject *buffer, *fspath, *offset, *read, *read1;
	PyTypeObject *trace;
	PyTypeObject *event;
	PyTypeObject *info;
	PyTypeObject *stats;
};

extern struct rp_py_objects rp_py_objects;

/* The bytes of a trace: those of a descriptor, of an object, or what its method returns. */
struct rp_py_source {
	PyObject *object;	/* the caller's argument; NULL: closed */
	PyObject *path;		/* in messages, or NULL */
	PyObject *method;	/* of the object: "read1" or "read"; or NULL; borrowed */
	int fd;			/* or -1 */
	bool owns_fd;
	Py_buffer view;		/* `obj` is NULL: there are no bytes */
	size_t viewed;		/* bytes already read of it */
	uint8_t start[4];	/* the first bytes, which show whether the trace is compressed */
	size_t start_bytes, start_given;
	bool has_start;
	bool is_damaged;	/* a frame of zstd is damaged */
	struct rp_decompressor *decompressor;
};

/* The names of an event's type, converted once. The trace owns it. */
struct rp_py_type {
	struct rp_py_type *next;
	PyObject *provider, *name;
	uint32_t field_count;
	PyObject *keys[];	/* names of fields; NULL: an earlier field has the same name */
};

/* An iterator over the events of a trace. */
struct rp_py_trace {
	PyObject_HEAD
	struct rp_reader *reader;	/* NULL: closed, and no event is left */
	struct rp_py_source source;
	struct rp_reader_info info;
	struct rp_reader_stats stats;	/* after the reader was closed */
	PyObject *key_values;		/* a dict */
	PyObject *thread_name;		/* of the last event that has one, or NULL */
	struct rp_py_type *types;
	bool opens_json;		/* members of JSON events become fields */
	struct rp_json_decoder json;
	size_t event_count;		/* events that exist; they point to the reader's types */
	bool is_busy;			/* a call is in progress, which may have released the GIL */
	bool is_closed;
};

/*
 * Initialise a source. An error sets an exception.
 * @object: a path, bytes, a file of Python, or an object with fileno().
 */
bool rp_py_source_init(struct rp_py_source *source, PyObject *object);
void rp_py_source_fini(struct rp_py_source *source);

/*
 * Read up to `size` bytes of the trace, decompressed: a rp_byte_source_read. If the call sets an
 * exception, it returns -ECANCELED. The GIL is released while read(2) blocks.
 */
ssize_t rp_py_source_read(void *data, void *buffer, size_t size);

/* The arguments of open(). */
struct rp_py_options {
	PyObject *source;
	int resumes;		/* skip damage */
	int opens_json;		/* members of JSON events become fields */
	PyObject *start, *stop;	/* of the range of time; None: all times */
};

/* Create a trace. Return: NULL with an exception. */
PyObject *rp_py_trace_open(const struct rp_py_options *options);

/*
 * Limit a trace, of which the header was read, to the events of the options' times. A file that was
 * opened by its path is read by the index that `ringpipe` has stored for it. Return: false with an
 * exception.
 */
bool rp_py_range_apply(struct rp_py_trace *trace, const struct rp_py_options *options);

/* Continue to read at an offset of a file that is not compressed: a rp_byte_source_seek_to. */
int rp_py_source_seek(void *data, uint64_t offset);

/* Release an event's claim on the reader, which is closed with the last one. */
void rp_py_trace_release(struct rp_py_trace *trace);

/* Create an event. It contains copies of all that is valid until the next event only. */
PyObject *rp_py_event_create(struct rp_py_trace *trace, const struct rp_reader_event *event);

/* Return the fields of an event as a new dict, or NULL with an exception. */
PyObject *rp_py_fields(const struct rp_reader_event *event, const struct rp_py_type *type);

/*
 * Return a new reference to the value of a field: None if the payload ends before it. `fallback`
 * is the value if the event has no such field; NULL: a KeyError.
 */
PyObject *rp_py_field(const struct rp_reader_event *event, const struct rp_py_type *type,
		      PyObject *name, PyObject *fallback);

/* Return a uuid.UUID, or None if all bytes are zero. */
PyObject *rp_py_uuid(const struct rp_guid *guid);

/* Return text as a str. Invalid UTF-8 becomes U+FFFD. */
PyObject *rp_py_text(const char *text);

/*
 * Raise Error, or Incomplete if `is_incomplete` is set, and return NULL.
 * @path: the file, or NULL
 * @sentence: about the error. An offset at its end also becomes the exception's attribute.
 */
PyObject *rp_py_raise(PyObject *path, const char *sentence, bool is_incomplete);

/* The specifications of the types; the module creates the types from them. */
extern PyType_Spec rp_py_trace_spec, rp_py_event_spec;
extern PyStructSequence_Desc rp_py_info_description, rp_py_stats_description;

#endif
