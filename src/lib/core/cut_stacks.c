/* SPDX-License-Identifier: MIT */
#include "core/cut_stacks.h"

#include "base/atomic.h"
#include "core/session_emit.h"
#include "core/session_state.h"
#include "unwind/unwind.h"

/* Number of rules that were requested since the start of the process. */
static uint64_t missing;

static const struct rp_field cut_fields[] = {
	{ "rules", NULL, 0, RP_TYPE_U64, 0, 0, NULL },
};

static const struct rp_event_def cut_def = {
	.index = RP_DEF_STACKS_INDEX,
	.id = 8,
	.serial = 1,
	.provider = "ringpipe",
	.name = "StacksCut",
	.message = "stacks may end too early: {0} unwind rules were not cached yet",
	.fields = cut_fields,
	.field_count = 1,
	.level = RP_LEVEL_INFORMATIONAL,
};

bool rp_stacks_cache_fill(void)
{
	const unsigned int count = rp_unwind_cache_fill();

	rp_add_relaxed(&missing, count);
	return count > 0;
}

void rp_stacks_begin(struct rp_session *session)
{
	session->reported.stack_rules = rp_load_relaxed(&missing);
	session->counts_stacks = session->flags & RP_SESSION_STACKS;
}

int rp_stacks_emit(struct rp_session *session)
{
	const uint64_t now = rp_load_relaxed(&missing);
	const uint64_t count = now - session->reported.stack_rules;
	int ret;

	if (!session->counts_stacks || count == 0)
		return 0;
	ret = rp_session_emit(session, &cut_def, &count, sizeof(count));
	if (ret == 0)
		session->reported.stack_rules = now;
	return ret;
}
