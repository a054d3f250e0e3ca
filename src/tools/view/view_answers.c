/* SPDX-License-Identifier: MIT */
#include "tools/view/view_answers.h"

#include "tools/formats/json_out.h"

void rp_view_key(struct rp_format_out *out, bool *is_first, const char *key)
{
	rp_view_comma(out, is_first);
	rp_out_char(out, '"');
	rp_out_text(out, key);
	rp_out_text(out, "\":");
}

void rp_view_text(struct rp_format_out *out, const char *text)
{
	if (text)
		rp_json_out_text(out, text);
	else
		rp_out_text(out, "null");
}

void rp_view_comma(struct rp_format_out *out, bool *is_first)
{
	if (!*is_first)
		rp_out_char(out, ',');
	*is_first = false;
}

enum rp_view_status rp_view_refuse(struct rp_format_out *out, enum rp_view_status status,
				   const char *error)
{
	out->used = 0;
	rp_out_text(out, "{\"error\":");
	rp_json_out_text(out, error);
	rp_out_char(out, '}');
	return status;
}

bool rp_view_wants_thread(const struct rp_view_query *query, const struct rp_view_thread *thread)
{
	return (!query->has_pid || query->pid == thread->process) &&
	       (!query->has_tid || query->tid == thread->thread);
}
