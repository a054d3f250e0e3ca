/* SPDX-License-Identifier: MIT */
#include "python/python_module.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

/* An event, with its payload and its frames at the end. */
struct rp_py_event {
	PyObject_VAR_HEAD
	struct rp_py_trace *trace;
	const struct rp_py_type *type;
	PyObject *thread_name;		/* or NULL */
	PyObject *labels;		/* a dict, or NULL */
	struct rp_reader_event event;
	uint8_t bytes[];
};

static bool put_label(PyObject *dict, const struct rp_reader_label *label)
{
	PyObject *key = rp_py_text(label->key);
	PyObject *value = label->text ? rp_py_text(label->text) :
			  PyLong_FromLongLong(label->number);
	bool is_done = key && value && PyDict_SetItem(dict, key, value) == 0;

	Py_XDECREF(key);
	Py_XDECREF(value);
	return is_done;
}

static PyObject *make_labels(const struct rp_reader_event *event)
{
	PyObject *dict = PyDict_New();

	for (uint32_t i = 0; dict && i < event->label_count; i++)
		if (!put_label(dict, &event->labels[i]))
			Py_CLEAR(dict);
	return dict;
}

/* Return a new reference. Most events have the thread of the event before them. */
static PyObject *find_thread_name(struct rp_py_trace *trace, const char *name)
{
	const char *last = trace->thread_name ? PyUnicode_AsUTF8AndSize(trace->thread_name, NULL) :
			   NULL;

	if (!last || strcmp(last, name)) {
		PyErr_Clear();
		Py_XDECREF(trace->thread_name);
		trace->thread_name = rp_py_text(name);
	}
	return Py_XNewRef(trace->thread_name);
}

static PyObject *make_key(const char *name, PyObject *seen)
{
	PyObject *key = rp_py_text(name);
	int ret = key ? PySet_Contains(seen, key) : -1;

	if (ret == 0) {
		PyUnicode_InternInPlace(&key);
		ret = PySet_Add(seen, key);
	}
	if (ret == 0)
		return key;
	Py_XDECREF(key);
	return NULL;
}

static struct rp_py_type *create_type(const struct rp_reader_type *type)
{
	struct rp_py_type *created = PyMem_Calloc(1, sizeof(*created) + type->field_count *
						  sizeof(created->keys[0]));
	PyObject *seen = PySet_New(NULL);

	if (!created) {
		PyErr_NoMemory();
	} else if (seen) {
		created->provider = rp_py_text(type->provider);
		created->name = rp_py_text(type->name);
		created->field_count = type->field_count;
		for (uint32_t i = 0; !PyErr_Occurred() && i < type->field_count; i++)
			created->keys[i] = make_key(type->fields[i].name, seen);
	}
	Py_XDECREF(seen);
	return created;
}

/* Return: NULL with an exception. */
static const struct rp_py_type *find_type(struct rp_py_trace *trace, struct rp_reader_type *type)
{
	struct rp_py_type *created;

	if (type->user)
		return type->user;
	created = create_type(type);
	if (!created)
		return NULL;
	created->next = trace->types;
	trace->types = created;
	if (PyErr_Occurred())
		return NULL;
	type->user = created;
	return created;
}

/* Copy the bytes to which the event points. */
static void copy_bytes(struct rp_py_event *self, size_t frame_bytes)
{
	struct rp_reader_event *event = &self->event;
	uint8_t *frames = self->bytes + event->payload_bytes;

	if (event->payload_bytes)
		memcpy(self->bytes, event->payload, event->payload_bytes);
	if (frame_bytes)
		memcpy(frames, event->frames, frame_bytes);
	event->payload = self->bytes;
	event->frames = frames;
	event->thread_name = NULL;
	event->labels = NULL;
}

PyObject *rp_py_event_create(struct rp_py_trace *trace, const struct rp_reader_event *event)
{
	const struct rp_py_type *type = find_type(trace, event->type);
	size_t frame_bytes = (size_t)event->frame_count * trace->info.pointer_bytes;
	struct rp_py_event *self;

	if (!type)
		return NULL;
	self = PyObject_NewVar(struct rp_py_event, rp_py_objects.event,
			       (Py_ssize_t)(event->payload_bytes + frame_bytes));
	if (!self)
		return NULL;
	trace->event_count++;
	Py_INCREF((PyObject *)trace);
	self->trace = trace;
	self->type = type;
	self->thread_name = *event->thread_name ? find_thread_name(trace, event->thread_name) :
			    NULL;
	self->labels = event->label_count ? make_labels(event) : NULL;
	self->event = *event;
	copy_bytes(self, frame_bytes);
	if ((*event->thread_name && !self->thread_name) || (event->label_count && !self->labels)) {
		Py_DECREF((PyObject *)self);
		return NULL;
	}
	return (PyObject *)self;
}

static void dealloc(struct rp_py_event *self)
{
	PyTypeObject *type = Py_TYPE((PyObject *)self);

	Py_XDECREF(self->thread_name);
	Py_XDECREF(self->labels);
	rp_py_trace_release(self->trace);
	Py_DECREF((PyObject *)self->trace);
	PyObject_Free(self);
	Py_DECREF((PyObject *)type);
}

static PyObject *get_provider(struct rp_py_event *self, void *unused)
{
	(void)unused;
	return Py_NewRef(self->type->provider);
}

static PyObject *get_name(struct rp_py_event *self, void *unused)
{
	(void)unused;
	return Py_NewRef(self->type->name);
}

static PyObject *get_id(struct rp_py_event *self, void *unused)
{
	(void)unused;
	return PyLong_FromUnsignedLong(self->event.type->id);
}

/* `place`: the offset of a member of struct rp_reader_event. */
static PyObject *get_u32(struct rp_py_event *self, void *place)
{
	uint32_t number;

	memcpy(&number, (const char *)&self->event + (uintptr_t)place, sizeof(number));
	return PyLong_FromUnsignedLong(number);
}

static PyObject *get_u64(struct rp_py_event *self, void *place)
{
	uint64_t number;

	memcpy(&number, (const char *)&self->event + (uintptr_t)place, sizeof(number));
	return PyLong_FromUnsignedLongLong(number);
}

static PyObject *get_guid(struct rp_py_event *self, void *place)
{
	struct rp_guid guid;

	memcpy(&guid, (const char *)&self->event + (uintptr_t)place, sizeof(guid));
	return rp_py_uuid(&guid);
}

static PyObject *get_time(struct rp_py_event *self, void *unused)
{
	(void)unused;
	return PyLong_FromLongLong(self->event.time_ns);
}

static PyObject *get_utc(struct rp_py_event *self, void *unused)
{
	const int64_t start = self->trace->info.start_utc_ns;
	int64_t utc;

	(void)unused;
	/* A damaged time is far from the recording; it has no date. */
	if (!start || __builtin_add_overflow(start, self->event.time_ns, &utc))
		Py_RETURN_NONE;
	return PyLong_FromLongLong(utc);
}

static PyObject *get_thread_name(struct rp_py_event *self, void *unused)
{
	(void)unused;
	return self->thread_name ? Py_NewRef(self->thread_name) :
	       PyUnicode_FromStringAndSize(NULL, 0);
}

static PyObject *get_trace_id(struct rp_py_event *self, void *unused)
{
	static const uint8_t none[sizeof(self->event.trace_id)];
	char text[2 * sizeof(self->event.trace_id) + 1];

	(void)unused;
	if (!memcmp(self->event.trace_id, none, sizeof(none)))
		Py_RETURN_NONE;
	for (size_t i = 0; i < sizeof(none); i++)
		snprintf(text + 2 * i, 3, "%02x", self->event.trace_id[i]);
	return PyUnicode_FromString(text);
}

static PyObject *get_span_id(struct rp_py_event *self, void *unused)
{
	char text[2 * sizeof(self->event.span_id) + 1];

	(void)unused;
	if (!self->event.span_id)
		Py_RETURN_NONE;
	snprintf(text, sizeof(text), "%016" PRIx64, self->event.span_id);
	return PyUnicode_FromString(text);
}

static PyObject *get_stack(struct rp_py_event *self, void *unused)
{
	const size_t pointer_bytes = self->trace->info.pointer_bytes;
	const uint8_t *frame = self->event.frames;
	PyObject *list = PyList_New(self->event.frame_count);

	(void)unused;
	for (uint32_t i = 0; list && i < self->event.frame_count; i++, frame += pointer_bytes) {
		uint64_t address = 0;
		PyObject *number;

		memcpy(&address, frame, pointer_bytes);
		number = PyLong_FromUnsignedLongLong(address);
		if (!number || PyList_SetItem(list, i, number) < 0)
			Py_CLEAR(list);
	}
	return list;
}

static PyObject *get_labels(struct rp_py_event *self, void *unused)
{
	(void)unused;
	return self->labels ? PyDict_Copy(self->labels) : PyDict_New();
}

static PyObject *get_fields(struct rp_py_event *self, void *unused)
{
	(void)unused;
	return rp_py_fields(&self->event, self->type);
}

static PyObject *subscript(struct rp_py_event *self, PyObject *name)
{
	return rp_py_field(&self->event, self->type, name, NULL);
}

static PyObject *get(struct rp_py_event *self, PyObject *arguments)
{
	PyObject *name, *fallback = Py_None;

	if (!PyArg_ParseTuple(arguments, "O|O:get", &name, &fallback))
		return NULL;
	return rp_py_field(&self->event, self->type, name, fallback);
}

static PyObject *repr(struct rp_py_event *self)
{
	PyObject *fields = rp_py_fields(&self->event, self->type), *text = NULL;

	if (fields)
		text = PyUnicode_FromFormat("<ringpipe.Event %U/%U time=%lld %R>",
					    self->type->provider, self->type->name,
					    (long long)self->event.time_ns, fields);
	Py_XDECREF(fields);
	return text;
}

#define PLACE(member) (void *)offsetof(struct rp_reader_event, member)
#define GETTER(function) (getter)(void (*)(void))(function)

static PyGetSetDef getters[] = {
	{ "provider", GETTER(get_provider), NULL, "The name of the provider.", NULL },
	{ "name", GETTER(get_name), NULL, "The name of the event; may be empty.", NULL },
	{ "id", GETTER(get_id), NULL, "The event's number in its provider.", NULL },
	{ "level", GETTER(get_u32), NULL, "0 to 5: log always to verbose.", PLACE(level) },
	{ "opcode", GETTER(get_u32), NULL, "0; 1 at a start, 2 at a stop.", PLACE(opcode) },
	{ "version", GETTER(get_u32), NULL, "The version of the event.", PLACE(event_version) },
	{ "keywords", GETTER(get_u64), NULL, "A mask of bits.", PLACE(keywords) },
	{ "time", GETTER(get_time), NULL,
	  "Nanoseconds since the start of the recording.", NULL },
	{ "utc", GETTER(get_utc), NULL,
	  "Nanoseconds since 1970 UTC; None if the trace has no date.", NULL },
	{ "process", GETTER(get_u64), NULL, "The process id.", PLACE(process) },
	{ "thread", GETTER(get_u64), NULL, "The thread id.", PLACE(thread) },
	{ "thread_name", GETTER(get_thread_name), NULL,
	  "The name of the thread, or an empty text.", NULL },
	{ "processor", GETTER(get_u32), NULL, "The number of the processor.", PLACE(processor) },
	{ "activity", GETTER(get_guid), NULL,
	  "The id of the activity, a uuid.UUID, or None.", PLACE(activity) },
	{ "related_activity", GETTER(get_guid), NULL,
	  "The id of the activity that started this one, or None.", PLACE(related_activity) },
	{ "trace_id", GETTER(get_trace_id), NULL,
	  "32 hexadecimal digits, as in a `traceparent` header, or None.", NULL },
	{ "span_id", GETTER(get_span_id), NULL, "16 hexadecimal digits, or None.", NULL },
	{ "stack", GETTER(get_stack), NULL, "A list of addresses, innermost first.", NULL },
	{ "labels", GETTER(get_labels), NULL, "A new dict of names and values.", NULL },
	{ "fields", GETTER(get_fields), NULL,
	  "A new dict of the fields. A field that the payload does not reach is None.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyMethodDef methods[] = {
	{ "get", (PyCFunction)(void (*)(void))get, METH_VARARGS,
	  "get(name, default=None)\n--\n\n"
	  "Return the value of a field, or `default` if the event has no such field." },
	{ NULL, NULL, 0, NULL },
};

static char doc[] = "One event of a trace. event[\"order_id\"] is the value of a field.\n\n"
		    "The event stays valid after the trace went on or was closed.";

static PyType_Slot slots[] = {
	{ Py_tp_doc, doc },
	{ Py_tp_dealloc, dealloc },
	{ Py_tp_repr, repr },
	{ Py_tp_getset, getters },
	{ Py_tp_methods, methods },
	{ Py_mp_subscript, subscript },
	{ 0, NULL },
};

PyType_Spec rp_py_event_spec = {
	.name = "ringpipe.Event",
	.basicsize = offsetof(struct rp_py_event, bytes),
	.itemsize = 1,
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = slots,
};
