/* SPDX-License-Identifier: MIT */
#include "python/python_module.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

/* Wait for bytes or a signal; the caller has released the GIL. */
static ssize_t read_descriptor(int fd, void *buffer, size_t size)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	ssize_t got = read(fd, buffer, size);

	while (got < 0 && errno == EAGAIN) {
		if (poll(&pfd, 1, -1) < 0)
			return -errno;
		got = read(fd, buffer, size);
	}
	return got < 0 ? -errno : got;
}

static ssize_t take_descriptor(const struct rp_py_source *source, void *buffer, size_t size)
{
	ssize_t got;

	do {
		Py_BEGIN_ALLOW_THREADS
		got = read_descriptor(source->fd, buffer, size);
		Py_END_ALLOW_THREADS
		/* A handler of Python runs here, and may raise KeyboardInterrupt. */
		if (got == -EINTR && PyErr_CheckSignals() < 0)
			return -ECANCELED;
	} while (got == -EINTR);
	return got;
}

static ssize_t take_view(struct rp_py_source *source, void *buffer, size_t size)
{
	const size_t left = (size_t)source->view.len - source->viewed;

	if (size > left)
		size = left;
	memcpy(buffer, (const char *)source->view.buf + source->viewed, size);
	source->viewed += size;
	return (ssize_t)size;
}

static ssize_t take_method(const struct rp_py_source *source, void *buffer, size_t size)
{
	PyObject *number = PyLong_FromSize_t(size), *bytes = NULL;
	Py_ssize_t got = -1;
	char *from;

	if (number)
		bytes = PyObject_CallMethodObjArgs(source->object, source->method, number, NULL);
	Py_XDECREF(number);
	if (!bytes)
		return -ECANCELED;
	if (bytes == Py_None)
		PyErr_SetString(PyExc_BlockingIOError, "the file has no bytes yet");
	else if (PyBytes_AsStringAndSize(bytes, &from, &got) == 0 && (size_t)got > size)
		PyErr_Format(PyExc_ValueError, "%U() returned more bytes than asked for",
			     source->method);
	else if (!PyErr_Occurred())
		memcpy(buffer, from, (size_t)got);
	Py_DECREF(bytes);
	return PyErr_Occurred() ? -ECANCELED : got;
}

/* Read bytes as the file has them: a rp_compression_read. */
static ssize_t take(void *data, void *buffer, size_t size)
{
	struct rp_py_source *source = data;

	if (source->view.obj)
		return take_view(source, buffer, size);
	return source->method ? take_method(source, buffer, size) :
	       take_descriptor(source, buffer, size);
}

/* Take the first bytes. Return: 0; -errno. */
static int take_start(struct rp_py_source *source)
{
	while (source->start_bytes < sizeof(source->start)) {
		ssize_t got = take(source, source->start + source->start_bytes,
				   sizeof(source->start) - source->start_bytes);

		if (got < 0)
			return (int)got;
		if (got == 0)
			break;
		source->start_bytes += (size_t)got;
	}
	source->has_start = true;
	if (source->start_bytes < sizeof(source->start) || !rp_compression_is_magic(source->start))
		return 0;
	if (!rp_compression_is_supported()) {
		rp_py_raise(source->path, "compressed by zstd, which this build of the module "
			    "cannot read; `zstd -d` restores the trace", false);
		return -ECANCELED;
	}
	source->decompressor = rp_decompressor_create(take, source, source->start,
						      source->start_bytes);
	return source->decompressor ? 0 : -ENOMEM;
}

static ssize_t decompress(struct rp_py_source *source, void *buffer, size_t size)
{
	ssize_t got = rp_decompressor_read(source->decompressor, buffer, size);

	source->is_damaged |= got == -EBADMSG;
	return got;
}

ssize_t rp_py_source_read(void *data, void *buffer, size_t size)
{
	struct rp_py_source *source = data;
	size_t left;
	int ret = source->has_start ? 0 : take_start(source);

	if (ret < 0)
		return ret;
	if (source->decompressor)
		return decompress(source, buffer, size);
	left = source->start_bytes - source->start_given;
	if (!left)
		return take(source, buffer, size);
	if (left > size)
		left = size;
	memcpy(buffer, source->start + source->start_given, left);
	source->start_given += left;
	return (ssize_t)left;
}

int rp_py_source_seek(void *data, uint64_t offset)
{
	struct rp_py_source *source = data;

	if (!source->owns_fd || source->decompressor)
		return -ESPIPE;
	if (lseek(source->fd, (off_t)offset, SEEK_SET) < 0)
		return -errno;
	source->start_given = source->start_bytes;
	return 0;
}

static bool init_path(struct rp_py_source *source)
{
	PyObject *bytes;

	if (!PyUnicode_FSConverter(source->path, &bytes))
		return false;
	/* A FIFO without a writer blocks open(2). A handler of Python may raise, as in a read. */
	do {
		Py_BEGIN_ALLOW_THREADS
		source->fd = open(PyBytes_AsString(bytes), O_RDONLY | O_CLOEXEC);
		Py_END_ALLOW_THREADS
	} while (source->fd < 0 && errno == EINTR && PyErr_CheckSignals() == 0);
	Py_DECREF(bytes);
	source->owns_fd = source->fd >= 0;
	if (source->fd < 0 && !PyErr_Occurred())
		PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, source->path);
	return source->fd >= 0;
}

/* Use the file below a text file, such as that of sys.stdin. */
static bool use_binary_file(struct rp_py_source *source)
{
	PyObject *below;

	if (!PyObject_HasAttr(source->object, rp_py_objects.buffer))
		return true;
	below = PyObject_GetAttr(source->object, rp_py_objects.buffer);
	if (!below)
		return false;
	Py_DECREF(source->object);
	source->object = below;
	return true;
}

/*
 * Prefer methods to fileno(): a buffered file may have read ahead, and the descriptor of a
 * gzip.GzipFile has compressed bytes. read1() returns what a pipe has; read() would wait for more.
 */
static bool init_object(struct rp_py_source *source)
{
	if (!use_binary_file(source))
		return false;
	if (PyObject_HasAttr(source->object, rp_py_objects.read1))
		source->method = rp_py_objects.read1;
	else if (PyObject_HasAttr(source->object, rp_py_objects.read))
		source->method = rp_py_objects.read;
	else
		source->fd = PyObject_AsFileDescriptor(source->object);
	return source->method || source->fd >= 0;
}

bool rp_py_source_init(struct rp_py_source *source, PyObject *object)
{
	bool is_path = PyUnicode_Check(object);
	bool is_done;

	Py_INCREF(object);
	*source = (struct rp_py_source){ .object = object, .fd = -1 };
	if (!is_path && PyObject_CheckBuffer(object)) {
		is_done = PyObject_GetBuffer(object, &source->view, PyBUF_SIMPLE) == 0;
	} else if (is_path || PyObject_HasAttr(object, rp_py_objects.fspath)) {
		source->path = PyOS_FSPath(object);
		is_done = source->path && init_path(source);
	} else {
		is_done = init_object(source);
	}
	if (!is_done)
		rp_py_source_fini(source);
	return is_done;
}

void rp_py_source_fini(struct rp_py_source *source)
{
	if (source->owns_fd)
		close(source->fd);
	source->owns_fd = false;
	source->fd = -1;
	rp_decompressor_destroy(source->decompressor);
	source->decompressor = NULL;
	if (source->view.obj)
		PyBuffer_Release(&source->view);
	Py_CLEAR(source->object);
	Py_CLEAR(source->path);
}
