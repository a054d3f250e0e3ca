/* SPDX-License-Identifier: MIT */
#include "python/python_module.h"

static PyObject *open_trace(PyObject *module, PyObject *arguments, PyObject *keywords)
{
	static char source[] = "", resume[] = "resume", start[] = "start", stop[] = "stop",
		    json[] = "json";
	static char *names[] = { source, resume, start, stop, json, NULL };
	struct rp_py_options options = { .opens_json = 1, .start = Py_None, .stop = Py_None };

	(void)module;
	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O|$pOOp:open", names,
					 &options.source, &options.resumes, &options.start,
					 &options.stop, &options.opens_json))
		return NULL;
	return rp_py_trace_open(&options);
}

static PyMethodDef functions[] = {
	{ "open", (PyCFunction)(void (*)(void))open_trace, METH_VARARGS | METH_KEYWORDS,
	  "open(source, /, *, resume=False, start=None, stop=None, json=True)\n--\n\n"
	  "Open a trace and read its header.\n\n"
	  "source is a path, the bytes of a trace, a file object, or an object with fileno().\n"
	  "The trace may be compressed by zstd. The caller closes files that the caller opened.\n"
	  "If resume is true, the trace skips damage instead of raising Error; Trace.damage lists\n"
	  "it.\n"
	  "start and stop select the events from one time on and before another. A time is an\n"
	  "int, the nanoseconds since the start of the recording, as Event.time is; a timedelta\n"
	  "since then; or a datetime with a time zone.\n"
	  "The members of a JSON event's text are its fields, next to the field source. If json\n"
	  "is false, the fields are source and json, which is the text.\n\n"
	  "Raises OSError if the file cannot be opened or read, and Error if it is no trace." },
	{ NULL, NULL, 0, NULL },
};

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "_ringpipe",
	.m_size = -1,
	.m_methods = functions,
};

static PyObject *import(const char *module_name, const char *name)
{
	PyObject *module = PyImport_ImportModule(module_name);
	PyObject *object = module ? PyObject_GetAttrString(module, name) : NULL;

	Py_XDECREF(module);
	return object;
}

static PyObject *make_epoch(void)
{
	PyObject *datetime = import("datetime", "datetime");
	PyObject *zone = import("datetime", "timezone");
	PyObject *utc = zone ? PyObject_GetAttrString(zone, "utc") : NULL;
	PyObject *epoch = NULL;

	if (datetime && utc)
		epoch = PyObject_CallFunction(datetime, "iiiiiiiO", 1970, 1, 1, 0, 0, 0, 0, utc);
	Py_XDECREF(datetime);
	Py_XDECREF(zone);
	Py_XDECREF(utc);
	return epoch;
}

/* Create the exceptions, whose attribute `offset` is None unless an instance has one. */
static bool create_errors(struct rp_py_objects *objects)
{
	PyObject *attributes = Py_BuildValue("{s:O}", "offset", Py_None);

	if (attributes)
		objects->error = PyErr_NewExceptionWithDoc(
			"ringpipe.Error", "A file is no trace, or is damaged. `offset` is the "
			"place in the decompressed file, or None.", NULL, attributes);
	if (objects->error)
		objects->incomplete = PyErr_NewExceptionWithDoc(
			"ringpipe.Incomplete", "A trace stops before its end, as that of a killed "
			"process does. All complete events were returned.", objects->error, NULL);
	Py_XDECREF(attributes);
	return objects->incomplete;
}

static bool create_names(struct rp_py_objects *objects)
{
	objects->buffer = PyUnicode_InternFromString("buffer");
	objects->fspath = PyUnicode_InternFromString("__fspath__");
	objects->offset = PyUnicode_InternFromString("offset");
	objects->read = PyUnicode_InternFromString("read");
	objects->read1 = PyUnicode_InternFromString("read1");
	return objects->buffer && objects->fspath && objects->offset && objects->read &&
	       objects->read1;
}

static bool create_objects(struct rp_py_objects *objects)
{
	if (!create_names(objects))
		return false;
	objects->uuid = import("uuid", "UUID");
	objects->timedelta = import("datetime", "timedelta");
	objects->epoch = make_epoch();
	objects->trace = (PyTypeObject *)PyType_FromSpec(&rp_py_trace_spec);
	objects->event = (PyTypeObject *)PyType_FromSpec(&rp_py_event_spec);
	objects->info = PyStructSequence_NewType(&rp_py_info_description);
	objects->stats = PyStructSequence_NewType(&rp_py_stats_description);
	return create_errors(objects) && objects->uuid && objects->timedelta && objects->epoch &&
	       objects->trace && objects->event && objects->info && objects->stats;
}

static bool add_objects(PyObject *module, const struct rp_py_objects *objects)
{
	const struct {
		const char *name;
		PyObject *object;
	} table[] = {
		{ "Error", objects->error },
		{ "Incomplete", objects->incomplete },
		{ "Trace", (PyObject *)objects->trace },
		{ "Event", (PyObject *)objects->event },
		{ "Info", (PyObject *)objects->info },
		{ "Stats", (PyObject *)objects->stats },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (PyModule_AddObjectRef(module, table[i].name, table[i].object) < 0)
			return false;
	return true;
}

PyMODINIT_FUNC PyInit__ringpipe(void);

PyMODINIT_FUNC PyInit__ringpipe(void)
{
	PyObject *module = PyModule_Create(&definition);

	if (module && (!create_objects(&rp_py_objects) || !add_objects(module, &rp_py_objects)))
		Py_CLEAR(module);
	return module;
}
