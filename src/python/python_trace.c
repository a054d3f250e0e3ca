/* SPDX-License-Identifier: MIT */
#include "python/python_module.h"

#include <errno.h>
#include <string.h>

#include "nettrace/reader_parts.h"

PyStructSequence_Desc rp_py_info_description = {
	.name = "ringpipe.Info",
	.doc = "The header of a trace.",
	.fields = (PyStructSequence_Field[]){
		{ "process_id", "the traced process" },
		{ "start_utc", "the start in nanoseconds since 1970 UTC, or None" },
		{ "ticks_per_second", "the rate of the trace's clock" },
		{ "processors", "the number of processors" },
		{ "pointer_bytes", "4 or 8" },
		{ "version", "of the format: 4 (also for 5) or 6" },
		{ "key_values", "a dict of the header's other texts, in version 6" },
		{ NULL, NULL },
	},
	.n_in_sequence = 7,
};

PyStructSequence_Desc rp_py_stats_description = {
	.name = "ringpipe.Stats",
	.doc = "Counts of what was read of a trace so far.",
	.fields = (PyStructSequence_Field[]){
		{ "events", "the events" },
		{ "lost", "events that were lost while the trace was recorded" },
		{ "threads", "threads that wrote events" },
		{ "sequence_points", "the sequence points" },
		{ "bytes", "bytes of the trace, decompressed" },
		{ "unordered", "events earlier than the event before them" },
		{ "ended", "whether the end of the trace was read" },
		{ "damaged_bytes", "bytes in the damaged parts that were skipped" },
		{ "lost_to_damage", "events that were in those parts, or depended on them" },
		{ NULL, NULL },
	},
	.n_in_sequence = 9,
};

/* Create a struct sequence of `count` new references; NULL is an exception. */
static PyObject *make_sequence(PyTypeObject *type, PyObject *const *items, Py_ssize_t count)
{
	PyObject *sequence = PyStructSequence_New(type);
	bool is_complete = sequence;

	for (Py_ssize_t i = 0; i < count; i++) {
		is_complete &= items[i] != NULL;
		if (sequence)
			PyStructSequence_SetItem(sequence, i, items[i]);
		else
			Py_XDECREF(items[i]);
	}
	if (!is_complete)
		Py_CLEAR(sequence);
	return sequence;
}

static PyObject *get_info(struct rp_py_trace *self, void *unused)
{
	const struct rp_reader_info *info = &self->info;
	PyObject *const items[] = {
		PyLong_FromUnsignedLong(info->process_id),
		info->start_utc_ns ? PyLong_FromLongLong(info->start_utc_ns) : Py_NewRef(Py_None),
		PyLong_FromUnsignedLongLong(info->ticks_per_second),
		PyLong_FromUnsignedLong(info->processors),
		PyLong_FromUnsignedLong(info->pointer_bytes),
		PyLong_FromUnsignedLong(info->version),
		PyDict_Copy(self->key_values),
	};

	(void)unused;
	return make_sequence(rp_py_objects.info, items, sizeof(items) / sizeof(items[0]));
}

static PyObject *get_stats(struct rp_py_trace *self, void *unused)
{
	struct rp_reader_stats *stats = &self->stats;

	(void)unused;
	if (self->reader)
		rp_reader_get_stats(self->reader, stats);
	PyObject *const items[] = {
		PyLong_FromUnsignedLongLong(stats->events),
		PyLong_FromUnsignedLongLong(stats->lost),
		PyLong_FromUnsignedLongLong(stats->threads),
		PyLong_FromUnsignedLongLong(stats->sequence_points),
		PyLong_FromUnsignedLongLong(stats->bytes),
		PyLong_FromUnsignedLongLong(stats->unordered),
		PyBool_FromLong((long)stats->ended),
		PyLong_FromUnsignedLongLong(stats->damaged_bytes),
		PyLong_FromUnsignedLongLong(stats->lost_to_damage),
	};

	return make_sequence(rp_py_objects.stats, items, sizeof(items) / sizeof(items[0]));
}

/* Append a damaged part to a list. `list` is NULL after an exception. */
static void add_damage(PyObject **list, const struct rp_reader_damage *damage)
{
	PyObject *reason = rp_py_text(damage->reason);
	PyObject *row = reason ? Py_BuildValue("(KKO)", (unsigned long long)damage->offset,
					       (unsigned long long)damage->bytes, reason) : NULL;

	if (!row || PyList_Append(*list, row) < 0)
		Py_CLEAR(*list);
	Py_XDECREF(reason);
	Py_XDECREF(row);
}

static PyObject *get_damage(struct rp_py_trace *self, void *unused)
{
	struct rp_reader_damage damage = RP_READER_DAMAGE_INIT;
	PyObject *list = PyList_New(0);

	(void)unused;
	if (!self->reader && list) {
		Py_CLEAR(list);
		PyErr_SetString(PyExc_ValueError, "the trace is closed");
	}
	for (uint64_t i = 0; list && rp_reader_get_damage(self->reader, i, &damage) == 0; i++)
		add_damage(&list, &damage);
	return list;
}

static PyObject *get_closed(struct rp_py_trace *self, void *unused)
{
	(void)unused;
	return PyBool_FromLong(self->is_closed);
}

static void free_reader(struct rp_py_trace *self)
{
	if (self->reader)
		rp_reader_get_stats(self->reader, &self->stats);
	rp_reader_close(self->reader);
	self->reader = NULL;
	while (self->types) {
		struct rp_py_type *next = self->types->next;

		Py_XDECREF(self->types->provider);
		Py_XDECREF(self->types->name);
		for (uint32_t i = 0; i < self->types->field_count; i++)
			Py_XDECREF(self->types->keys[i]);
		PyMem_Free(self->types);
		self->types = next;
	}
	rp_json_decoder_fini(&self->json);
}

void rp_py_trace_release(struct rp_py_trace *trace)
{
	trace->event_count--;
	if (trace->is_closed && !trace->event_count)
		free_reader(trace);
}

static void close_trace(struct rp_py_trace *self)
{
	self->is_closed = true;
	rp_py_source_fini(&self->source);
	if (!self->event_count)
		free_reader(self);
}

static bool check_not_busy(const struct rp_py_trace *self)
{
	if (self->is_busy)
		PyErr_SetString(PyExc_RuntimeError, "another call reads this trace");
	return !self->is_busy;
}

static PyObject *trace_close(struct rp_py_trace *self, PyObject *unused)
{
	(void)unused;
	if (!check_not_busy(self))
		return NULL;
	close_trace(self);
	Py_RETURN_NONE;
}

static PyObject *trace_enter(struct rp_py_trace *self, PyObject *unused)
{
	(void)unused;
	return Py_NewRef((PyObject *)self);
}

static void trace_dealloc(struct rp_py_trace *self)
{
	PyTypeObject *type = Py_TYPE((PyObject *)self);

	close_trace(self);
	Py_XDECREF(self->key_values);
	Py_XDECREF(self->thread_name);
	PyObject_Free(self);
	Py_DECREF((PyObject *)type);
}

/* Raise the exception for an error other than those of the format. */
static PyObject *raise_system(const struct rp_py_source *source, int error)
{
	if (error == -ENOMEM)
		return PyErr_NoMemory();
	errno = -error;
	return PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, source->path);
}

/* Raise the exception for a damaged frame of zstd. `said`: the reader's sentence, or "". */
static PyObject *raise_damaged_frame(const struct rp_py_source *source, const char *said)
{
	const char *offset = strstr(said, " at offset ");
	char sentence[256];

	snprintf(sentence, sizeof(sentence), "a damaged frame of zstd: %s%s",
		 rp_decompressor_error(source->decompressor), offset ? offset : "");
	return rp_py_raise(source->path, sentence, false);
}

static PyObject *raise_open(const struct rp_py_source *source, int error, const char *said)
{
	char sentence[256];

	if (PyErr_Occurred())
		return NULL;
	if (source->is_damaged)
		return raise_damaged_frame(source, said);
	if (error == -EPROTONOSUPPORT)
		return rp_py_raise(source->path, said, false);
	if (error != -EBADMSG)
		return raise_system(source, error);
	snprintf(sentence, sizeof(sentence), "not a nettrace file, or its beginning is damaged%s%s",
		 *said ? ": " : "", said);
	return rp_py_raise(source->path, sentence, false);
}

static PyObject *raise_next(const struct rp_py_trace *self, int error)
{
	const char *said = rp_reader_error(self->reader);

	if (PyErr_Occurred())
		return NULL;
	if (self->source.is_damaged)
		return raise_damaged_frame(&self->source, said);
	if (error == -ECANCELED)
		return rp_py_raise(self->source.path, "reading ended with an exception earlier",
				   false);
	if (error == -EBADMSG || error == -EPROTONOSUPPORT || error == -ENODATA)
		return rp_py_raise(self->source.path, said, error == -ENODATA);
	return raise_system(&self->source, error);
}

static PyObject *create_event(struct rp_py_trace *self, const struct rp_reader_event *event)
{
	if (self->opens_json)
		event = rp_json_decode(&self->json, event);
	return event ? rp_py_event_create(self, event) : PyErr_NoMemory();
}

static PyObject *trace_next(struct rp_py_trace *self)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	int ret;

	if (!check_not_busy(self))
		return NULL;
	if (self->is_closed) {
		PyErr_SetString(PyExc_ValueError, "the trace is closed");
		return NULL;
	}
	self->is_busy = true;
	ret = rp_reader_next(self->reader, &event);
	self->is_busy = false;
	if (ret == 1)
		return create_event(self, &event);
	return ret ? raise_next(self, ret) : NULL;
}

static bool take_key_values(struct rp_py_trace *self)
{
	const char *key, *value;

	self->key_values = PyDict_New();
	for (uint32_t i = 0; self->key_values &&
	     rp_reader_get_key_value(self->reader, i, &key, &value) == 0; i++) {
		PyObject *name = rp_py_text(key), *text = rp_py_text(value);

		if (!name || !text || PyDict_SetItem(self->key_values, name, text) < 0)
			Py_CLEAR(self->key_values);
		Py_XDECREF(name);
		Py_XDECREF(text);
	}
	return self->key_values;
}

static bool start(struct rp_py_trace *self, const struct rp_py_options *options)
{
	struct rp_byte_source bytes;
	char said[256] = "";
	int ret;

	rp_byte_source_init_read(&bytes, rp_py_source_read, &self->source);
	bytes.seek = rp_py_source_seek;
	self->is_busy = true;
	ret = rp_reader_open_source(&bytes, &self->reader, said, sizeof(said));
	self->is_busy = false;
	if (ret) {
		raise_open(&self->source, ret, said);
		return false;
	}
	if (options->resumes)
		(void)rp_reader_resume_after_damage(self->reader);
	rp_reader_get_info(self->reader, &self->info);
	return rp_py_range_apply(self, options) && take_key_values(self);
}

PyObject *rp_py_trace_open(const struct rp_py_options *options)
{
	PyObject *created = PyType_GenericAlloc(rp_py_objects.trace, 0);
	struct rp_py_trace *self = (struct rp_py_trace *)created;

	if (!self)
		return NULL;
	self->info = (struct rp_reader_info)RP_READER_INFO_INIT;
	self->stats = (struct rp_reader_stats)RP_READER_STATS_INIT;
	self->source.fd = -1;
	self->opens_json = options->opens_json;
	if (!rp_py_source_init(&self->source, options->source) || !start(self, options))
		Py_CLEAR(created);
	return created;
}

#define FUNCTION(type, function) (type)(void (*)(void))(function)

static PyGetSetDef getters[] = {
	{ "info", FUNCTION(getter, get_info), NULL, "The header of the trace.", NULL },
	{ "stats", FUNCTION(getter, get_stats), NULL,
	  "Counts of what was read so far, also after close().", NULL },
	{ "damage", FUNCTION(getter, get_damage), NULL,
	  "The damaged parts that were skipped, with open(resume=True): (offset, bytes, reason).",
	  NULL },
	{ "closed", FUNCTION(getter, get_closed), NULL, "Whether the trace is closed.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyMethodDef methods[] = {
	{ "close", FUNCTION(PyCFunction, trace_close), METH_NOARGS,
	  "close()\n--\n\n"
	  "Close the file, if open() opened it. Events stay valid; a second call does nothing." },
	{ "__enter__", FUNCTION(PyCFunction, trace_enter), METH_NOARGS, NULL },
	{ "__exit__", FUNCTION(PyCFunction, trace_close), METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static char doc[] = "An iterator over the events of a trace, in the order of the stream.";

static PyType_Slot slots[] = {
	{ Py_tp_doc, doc },
	{ Py_tp_dealloc, trace_dealloc },
	{ Py_tp_iter, PyObject_SelfIter },
	{ Py_tp_iternext, trace_next },
	{ Py_tp_getset, getters },
	{ Py_tp_methods, methods },
	{ 0, NULL },
};

PyType_Spec rp_py_trace_spec = {
	.name = "ringpipe.Trace",
	.basicsize = sizeof(struct rp_py_trace),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = slots,
};
