/* SPDX-License-Identifier: MIT */
#include "ipc/provider_list.h"

static void put_provider(struct rp_message_buffer *request,
			 const struct rp_session_provider *provider)
{
	rp_message_put_u64(request, provider->keywords);
	rp_message_put_u32(request, provider->level);
	rp_message_put_string(request, provider->name);
	rp_message_put_string(request, provider->filter_data);
}

void rp_message_put_providers(struct rp_message_buffer *request,
			      const struct rp_session_provider *providers, size_t count)
{
	rp_message_put_u32(request, (uint32_t)count);
	for (size_t i = 0; i < count; i++)
		put_provider(request, &providers[i]);
}

void rp_message_put_filtered_providers(struct rp_message_buffer *request,
				       const struct rp_session_provider *providers, size_t count)
{
	rp_message_put_u32(request, (uint32_t)count);
	for (size_t i = 0; i < count; i++) {
		const struct rp_event_filter *filter = providers[i].filter;

		put_provider(request, &providers[i]);
		rp_message_put_u8(request, filter->enable);
		rp_message_put_u32(request, (uint32_t)filter->id_count);
		for (size_t j = 0; j < filter->id_count; j++)
			rp_message_put_u32(request, filter->ids[j]);
	}
}
