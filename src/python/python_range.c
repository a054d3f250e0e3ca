/* SPDX-License-Identifier: MIT */
/* The arguments start and stop of open(). */
#include "python/python_module.h"

#include <errno.h>

#include "tools/trace/trace_index.h"

/* Convert a timedelta. Return: false with an exception. */
static bool take_delta(PyObject *delta, int64_t *ret_ns)
{
	PyObject *unit = PyObject_CallFunction(rp_py_objects.timedelta, "iii", 0, 0, 1);
	PyObject *microseconds = unit ? PyNumber_FloorDivide(delta, unit) : NULL;
	long long number = microseconds ? PyLong_AsLongLong(microseconds) : -1;

	Py_XDECREF(unit);
	Py_XDECREF(microseconds);
	if (number == -1 && PyErr_Occurred())
		return false;
	/* A time beyond the range of 64 bits is before or after all events. */
	if (__builtin_mul_overflow(number, 1000, ret_ns))
		*ret_ns = number < 0 ? INT64_MIN : INT64_MAX;
	return true;
}

/* Convert a datetime, which must have a time zone. Return: false with an exception. */
static bool take_date(PyObject *date, const struct rp_reader_info *info, int64_t *ret_ns)
{
	PyObject *delta = PyNumber_Subtract(date, rp_py_objects.epoch);
	const bool is_done = delta && take_delta(delta, ret_ns);

	Py_XDECREF(delta);
	if (!is_done)
		return false;
	if (!info->start_utc_ns) {
		PyErr_SetString(PyExc_ValueError, "the trace does not state the time of day of its "
				"start; give a time since the start");
		return false;
	}
	if (__builtin_sub_overflow(*ret_ns, info->start_utc_ns, ret_ns))
		*ret_ns = info->start_utc_ns > 0 ? INT64_MIN : INT64_MAX;
	return true;
}

/* Convert a time; None leaves `ret_ns` unchanged. Return: false with an exception. */
static bool take_time(PyObject *time, const struct rp_reader_info *info, int64_t *ret_ns)
{
	int is_delta;

	if (time == Py_None)
		return true;
	if (PyLong_Check(time)) {
		*ret_ns = PyLong_AsLongLong(time);
		return !PyErr_Occurred();
	}
	is_delta = PyObject_IsInstance(time, rp_py_objects.timedelta);
	if (is_delta)
		return is_delta > 0 && take_delta(time, ret_ns);
	if (PyObject_IsInstance(time, (PyObject *)Py_TYPE(rp_py_objects.epoch)) == 1)
		return take_date(time, info, ret_ns);
	if (!PyErr_Occurred())
		PyErr_SetString(PyExc_TypeError, "start and stop must be int, timedelta, datetime "
				"or None");
	return false;
}

/* Return: as rp_trace_index_select_stored(); -ECANCELED with an exception. */
static int select_events(struct rp_py_trace *trace, const struct rp_trace_query *query)
{
	const struct rp_py_source *source = &trace->source;
	PyObject *path;
	int ret;

	if (!source->owns_fd || source->decompressor)
		return rp_trace_index_select(NULL, query, trace->reader);
	if (!PyUnicode_FSConverter(source->path, &path))
		return -ECANCELED;
	ret = rp_trace_index_select_stored(PyBytes_AsString(path), source->fd, query,
					   trace->reader);
	Py_DECREF(path);
	return ret;
}

bool rp_py_range_apply(struct rp_py_trace *trace, const struct rp_py_options *options)
{
	struct rp_trace_query query = { .from_ns = INT64_MIN, .to_ns = INT64_MAX };
	int ret;

	if (!take_time(options->start, &trace->info, &query.from_ns) ||
	    !take_time(options->stop, &trace->info, &query.to_ns))
		return false;
	if (query.from_ns >= query.to_ns) {
		PyErr_SetString(PyExc_ValueError, "start must be earlier than stop");
		return false;
	}
	if (options->start == Py_None && options->stop == Py_None)
		return true;
	ret = select_events(trace, &query);
	if (ret == -ENOMEM)
		PyErr_NoMemory();
	return ret == 0;
}
