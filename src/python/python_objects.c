/* SPDX-License-Identifier: MIT */
/* All files of the module share these functions. */
#include "python/python_module.h"

#include <stdlib.h>
#include <string.h>

struct rp_py_objects rp_py_objects;

PyObject *rp_py_text(const char *text)
{
	return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

/* Return the offset at the end of a sentence as a new int, or None. */
static PyObject *find_offset(const char *sentence)
{
	static const char words_before[] = " at offset ";
	const char *found = strstr(sentence, words_before);

	if (!found)
		Py_RETURN_NONE;
	return PyLong_FromUnsignedLongLong(strtoull(found + sizeof(words_before) - 1, NULL, 10));
}

static PyObject *make_message(PyObject *path, const char *sentence)
{
	PyObject *text = rp_py_text(sentence), *name = NULL, *message = NULL;

	if (!path || !text)
		return text;
	if (PyUnicode_FSDecoder(path, &name))
		message = PyUnicode_FromFormat("%U: %U", name, text);
	Py_XDECREF(name);
	Py_DECREF(text);
	return message;
}

PyObject *rp_py_raise(PyObject *path, const char *sentence, bool is_incomplete)
{
	PyObject *class = is_incomplete ? rp_py_objects.incomplete : rp_py_objects.error;
	PyObject *message = make_message(path, sentence);
	PyObject *offset = message ? find_offset(sentence) : NULL;
	PyObject *error = offset ? PyObject_CallFunctionObjArgs(class, message, NULL) : NULL;

	if (error && PyObject_SetAttr(error, rp_py_objects.offset, offset) == 0)
		PyErr_SetObject(class, error);
	Py_XDECREF(message);
	Py_XDECREF(offset);
	Py_XDECREF(error);
	return NULL;
}
