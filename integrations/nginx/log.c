/* SPDX-License-Identifier: MIT */
/*
 * Lines of nginx's logs as events. A log is a list of outputs in the order of their levels, the one
 * with the most lines first. Ours follows the first and gets what the first gets.
 */
#include "module.h"

#include "events.h"

/*
 * A line has the form `TIME [LEVEL] PID#TID: *CONNECTION MESSAGE\n`, and the connection may be
 * missing. The event has its own time, level, process and thread.
 */
static void write_line(ngx_log_t *log, ngx_uint_t level, u_char *line, size_t bytes)
{
	const char *text = (const char *)line, *end = text + bytes, *from;
	uint64_t connection = 0;

	(void)log;
	while (end > text && end[-1] == '\n')
		end--;
	from = memchr(text, '[', (size_t)(end - text));
	from = from ? memmem(from, (size_t)(end - from), ": ", 2) : NULL;
	if (from)
		text = from + 2;
	if (text < end && *text == '*') {
		for (text++; text < end && *text >= '0' && *text <= '9'; text++)
			connection = connection * 10 + (uint64_t)(*text - '0');
		text += text < end;
	}
	bytes = (size_t)(end - text);
	if (level <= NGX_LOG_CRIT)
		nginx_log_critical(connection, text, bytes);
	else if (level == NGX_LOG_ERR)
		nginx_log_error(connection, text, bytes);
	else if (level == NGX_LOG_WARN)
		nginx_log_warning(connection, text, bytes);
	else if (level <= NGX_LOG_INFO)
		nginx_log_notice(connection, text, bytes);
	else
		nginx_log_debug(connection, text, bytes);
}

ngx_int_t ringpipe_log_add(ngx_conf_t *cf, ngx_log_t *log)
{
	ngx_log_t *ours;

	for (const ngx_log_t *output = log; output; output = output->next)
		if (output->writer == write_line)
			return NGX_OK;
	ours = ngx_pcalloc(cf->pool, sizeof(*ours));
	if (!ours)
		return NGX_ERROR;
	ours->log_level = log->log_level;
	ours->writer = write_line;
	ours->next = log->next;
	log->next = ours;
	return NGX_OK;
}

/* The level of the main log may follow its use in the configuration, or be the default. */
void ringpipe_log_init(ngx_cycle_t *cycle)
{
	for (ngx_log_t *output = &cycle->new_log; output; output = output->next)
		if (output->writer == write_line)
			output->log_level = cycle->new_log.log_level;
}
