/* SPDX-License-Identifier: MIT */
/* The values of fields as objects of Python. */
#include "python/python_module.h"

#include <string.h>

/* 1970-01-01 in units of 100 ns since 1601-01-01. */
#define TICKS_1970 116444736000000000
#define TICKS_OF_DAY (INT64_C(86400) * 10000000)

/*
 * Values that an event may have in addition to the bytes of its payload. Values without bytes, such
 * as the elements of an array of empty structs, could otherwise fill all memory.
 */
#define EMPTY_VALUES_MAX 65536

static PyObject *make_value(const struct rp_reader_field *field, struct rp_value *value,
			    size_t *budget);

PyObject *rp_py_uuid(const struct rp_guid *guid)
{
	static const struct rp_guid none;
	PyObject *arguments, *keywords, *uuid = NULL;

	if (!memcmp(guid, &none, sizeof(none)))
		Py_RETURN_NONE;
	arguments = PyTuple_New(0);
	keywords = Py_BuildValue("{s:y#}", "bytes", (const char *)guid->bytes,
				 (Py_ssize_t)sizeof(guid->bytes));
	if (arguments && keywords)
		uuid = PyObject_Call(rp_py_objects.uuid, arguments, keywords);
	Py_XDECREF(arguments);
	Py_XDECREF(keywords);
	return uuid;
}

/* Return the nanoseconds since 1970 as an int, for a time that datetime cannot express. */
static PyObject *make_distant_time(int64_t ticks)
{
	PyObject *time = PyLong_FromLongLong(ticks), *epoch = PyLong_FromLongLong(TICKS_1970);
	PyObject *unit = PyLong_FromLong(100), *since = NULL, *ns = NULL;

	if (time && epoch && unit)
		since = PyNumber_Subtract(time, epoch);
	if (since)
		ns = PyNumber_Multiply(since, unit);
	Py_XDECREF(time);
	Py_XDECREF(epoch);
	Py_XDECREF(unit);
	Py_XDECREF(since);
	return ns;
}

static PyObject *make_time(const struct rp_value *value)
{
	int64_t ticks, days, rest;
	PyObject *delta, *time;

	memcpy(&ticks, value->bytes, sizeof(ticks));
	days = ticks / TICKS_OF_DAY - TICKS_1970 / TICKS_OF_DAY;
	rest = ticks % TICKS_OF_DAY / 10;	/* microseconds, negative before 1601 */
	rest -= ticks % 10 < 0;
	delta = PyObject_CallFunction(rp_py_objects.timedelta, "LLL", (long long)days, 0ll,
				      (long long)rest);
	if (!delta)
		return NULL;
	time = PyNumber_Add(rp_py_objects.epoch, delta);
	Py_DECREF(delta);
	if (time || !PyErr_ExceptionMatches(PyExc_OverflowError))
		return time;
	PyErr_Clear();
	return make_distant_time(ticks);
}

static PyObject *make_character(const struct rp_value *value)
{
	const bool is_surrogate = value->u64 >= 0xd800 && value->u64 < 0xe000;

	return PyUnicode_FromOrdinal(is_surrogate ? 0xfffd : (int)(value->u64 & 0xffff));
}

static PyObject *make_utf16(const struct rp_value *value)
{
	int byte_order = -1;	/* little-endian, and U+FEFF is part of the text */

	return PyUnicode_DecodeUTF16(value->bytes, (Py_ssize_t)value->size_bytes, "replace",
				     &byte_order);
}

static PyObject *make_elements(const struct rp_reader_field *field, struct rp_value *array,
			       size_t *budget)
{
	struct rp_value value = RP_VALUE_INIT;
	PyObject *list = PyList_New(0);

	while (list && rp_fields_next(&array->inner, &value) == 1) {
		PyObject *element = make_value(field, &value, budget);

		if (!element || PyList_Append(list, element) < 0)
			Py_CLEAR(list);
		Py_XDECREF(element);
	}
	return list;
}

/* Put a member unless an earlier one has its name. */
static bool put_member(PyObject *members, const char *name, PyObject *value)
{
	PyObject *key = rp_py_text(name);
	bool is_done = false;
	int ret;

	if (key && value) {
		ret = PyDict_Contains(members, key);
		is_done = ret == 1 || (ret == 0 && PyDict_SetItem(members, key, value) == 0);
	}
	Py_XDECREF(key);
	return is_done;
}

/* Members that the payload does not reach are None. */
static PyObject *make_members(const struct rp_reader_field *field, struct rp_value *record,
			      size_t *budget)
{
	struct rp_value value = RP_VALUE_INIT;
	PyObject *members = PyDict_New();
	bool is_cut = false;

	for (uint16_t i = 0; members && i < field->member_count; i++) {
		PyObject *member;

		is_cut = is_cut || rp_fields_next(&record->inner, &value) != 1;
		if (is_cut)
			member = Py_NewRef(Py_None);
		else
			member = make_value(&field->members[i], &value, budget);
		if (!put_member(members, field->members[i].name, member))
			Py_CLEAR(members);
		Py_XDECREF(member);
	}
	return members;
}

/* reader.h describes an array in an array as a struct whose one member has no name. */
static PyObject *make_struct(const struct rp_reader_field *field, struct rp_value *value,
			     size_t *budget)
{
	struct rp_value member = RP_VALUE_INIT;

	if (field->member_count != 1 || *field->members[0].name)
		return make_members(field, value, budget);
	if (rp_fields_next(&value->inner, &member) != 1)
		Py_RETURN_NONE;
	return make_value(&field->members[0], &member, budget);
}

static PyObject *make_number(const struct rp_value *value)
{
	switch (value->type) {
	case RP_TYPE_BOOL:
		return PyBool_FromLong(value->u64 != 0);
	case RP_TYPE_F32:
	case RP_TYPE_F64:
		return PyFloat_FromDouble(value->f64);
	case RP_TYPE_U8:
	case RP_TYPE_U16:
	case RP_TYPE_U32:
	case RP_TYPE_U64:
	case RP_TYPE_POINTER:
		return PyLong_FromUnsignedLongLong(value->u64);
	default:
		return PyLong_FromLongLong(value->i64);
	}
}

static PyObject *make_bytes(const struct rp_value *value)
{
	return PyBytes_FromStringAndSize(value->bytes, (Py_ssize_t)value->size_bytes);
}

static PyObject *make_guid(const struct rp_value *value)
{
	PyObject *uuid = rp_py_uuid(&value->guid);

	if (uuid == Py_None) {
		Py_DECREF(uuid);
		uuid = PyObject_CallFunction(rp_py_objects.uuid, "s",
					     "00000000-0000-0000-0000-000000000000");
	}
	return uuid;
}

/* The reader limits the depth of a type, and so that of the recursion. */
static PyObject *make_value(const struct rp_reader_field *field, struct rp_value *value,
			    size_t *budget)
{
	if (!*budget)
		return rp_py_raise(NULL, "an event with more values than bytes", false);
	(*budget)--;
	switch (value->type) {
	case RP_TYPE_NONE:
		return make_bytes(value);
	case RP_TYPE_CHAR:
		return make_character(value);
	case RP_TYPE_GUID:
		return make_guid(value);
	case RP_TYPE_TIME:
		return make_time(value);
	case RP_TYPE_STRING:
		return PyUnicode_DecodeUTF8(value->bytes, (Py_ssize_t)value->size_bytes,
					    "replace");
	case RP_TYPE_STRING16:
		return make_utf16(value);
	case RP_TYPE_ARRAY:
		if (value->element == RP_TYPE_U8)
			return make_bytes(value);
		return make_elements(field, value, budget);
	case RP_TYPE_STRUCT:
		return make_struct(field, value, budget);
	default:
		return make_number(value);
	}
}

PyObject *rp_py_fields(const struct rp_reader_event *event, const struct rp_py_type *type)
{
	size_t budget = EMPTY_VALUES_MAX + event->payload_bytes;
	struct rp_value value = RP_VALUE_INIT;
	PyObject *dict = PyDict_New();
	struct rp_fields fields;
	bool is_cut = false;

	rp_reader_get_fields(event, &fields);
	for (uint32_t i = 0; dict && i < type->field_count; i++) {
		PyObject *object = Py_None;

		is_cut = is_cut || rp_fields_next(&fields, &value) != 1;
		if (!type->keys[i])
			continue;
		if (is_cut)
			Py_INCREF(object);
		else
			object = make_value(&event->type->fields[i], &value, &budget);
		if (!object || PyDict_SetItem(dict, type->keys[i], object) < 0)
			Py_CLEAR(dict);
		Py_XDECREF(object);
	}
	return dict;
}

/* Return the index of a field, or -1: there is none, or -2: an exception. */
static int64_t find_field(const struct rp_py_type *type, PyObject *name)
{
	/* A literal of the caller and a key are mostly one object, because both are interned. */
	for (uint32_t i = 0; i < type->field_count; i++)
		if (type->keys[i] == name)
			return i;
	if (!PyUnicode_Check(name))
		return -1;
	for (uint32_t i = 0; i < type->field_count; i++) {
		int order = type->keys[i] ? PyUnicode_Compare(type->keys[i], name) : 1;

		if (order == 0)
			return i;
		if (order == -1 && PyErr_Occurred())
			return -2;
	}
	return -1;
}

PyObject *rp_py_field(const struct rp_reader_event *event, const struct rp_py_type *type,
		      PyObject *name, PyObject *fallback)
{
	size_t budget = EMPTY_VALUES_MAX + event->payload_bytes;
	struct rp_value value = RP_VALUE_INIT;
	int64_t index = find_field(type, name);
	struct rp_fields fields;

	if (index == -1 && fallback)
		return Py_NewRef(fallback);
	if (index == -1)
		PyErr_SetObject(PyExc_KeyError, name);
	if (index < 0)
		return NULL;
	rp_reader_get_fields(event, &fields);
	for (int64_t i = 0; i <= index; i++)
		if (rp_fields_next(&fields, &value) != 1)
			Py_RETURN_NONE;
	return make_value(&event->type->fields[index], &value, &budget);
}
