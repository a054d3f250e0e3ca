/* SPDX-License-Identifier: MIT */
#include "tools/trace/trace_output.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/file.h"
#include "tools/trace/compression.h"
#include "tools/cli/tool.h"

static int open_compressor(struct rp_trace_output *output, const char *path)
{
	if (!rp_compression_is_named(path))
		return 0;
	if (!rp_compression_is_supported()) {
		rp_tool_error("cannot write %s: this build lacks libzstd", path);
		return -EOPNOTSUPP;
	}
	output->compressor = rp_compressor_create();
	if (!output->compressor)
		rp_tool_error("out of memory");
	return output->compressor ? 0 : -ENOMEM;
}

int rp_trace_output_open(struct rp_trace_output *output, const char *path, bool force)
{
	int ret;

	output->compressor = NULL;
	output->compressed_bytes = 0;
	ret = open_compressor(output, path);
	if (ret == 0)
		ret = rp_output_open(&output->output, path, force);
	if (ret < 0) {
		rp_trace_output_fini(output);
		return ret;
	}
	if (output->compressor) {
		output->output.compress = rp_compressor_write;
		output->output.compressor = output->compressor;
	}
	return 0;
}

void rp_trace_output_make_interruptible(struct rp_trace_output *output, int signal_fd)
{
	rp_output_make_interruptible(&output->output, signal_fd, NULL, NULL);
}

bool rp_trace_output_is_input(const struct rp_trace_output *output, int fd)
{
	struct stat one, two;

	if (fstat(fd, &one) != 0 || fstat(output->output.fd, &two) != 0 || !S_ISREG(one.st_mode) ||
	    !rp_file_is_same(&one, &two))
		return false;
	rp_tool_error("%s is a trace to read; choose another file by -o", output->output.path);
	return true;
}

int rp_trace_output_close(struct rp_trace_output *output)
{
	int ret = output->compressor ? rp_compressor_end(output->compressor, &output->output,
							 &output->compressed_bytes) : 0;

	return ret ? ret : rp_output_close(&output->output);
}

void rp_trace_output_discard(struct rp_trace_output *output)
{
	rp_output_discard(&output->output);
}

void rp_trace_output_fini(struct rp_trace_output *output)
{
	rp_compressor_destroy(output->compressor);
	output->compressor = NULL;
}
