/* SPDX-License-Identifier: MIT */
/* C++ events with a secret field of every kind: a listener in the program receives no secret. */
#include <cstdio>
#include <cstring>

#include <ringpipe/ringpipe.h>

#define PATIENCE_MS 60000

RP_STRUCT(card, RP_U64(number), RP_U16(code));

RP_PROVIDER(keys, "Keys-Of-Cxx");
RP_EVENT(keys, all, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U32(user), RP_SECRET(RP_STRING(password)),
	 RP_SECRET(RP_STRING16(wide)), RP_SECRET(RP_BOOL(is_rich)), RP_SECRET(RP_F64(rate)),
	 RP_SECRET(RP_POINTER(where)), RP_SECRET(RP_GUID(token)), RP_SECRET(RP_BLOB(key)),
	 RP_SECRET(RP_ARRAY(U16, digits)), RP_SECRET(RP_STRUCT_FIELD(card, paid)),
	 RP_SECRET(RP_STRUCT_ARRAY(card, others)), RP_STRING(page));

/* The user id 7; `***`, a wide `***`; zeros for the other secrets; the page "/". */
static const char expected[] = "\7\0\0\0***\0*\0*\0*\0\0\0"
	"\0" "\0\0\0\0\0\0\0\0" "\0\0\0\0\0\0\0\0" "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
	"\0\0" "\0\0" "\0\0\0\0\0\0\0\0\0\0" "\0\0" "/";

int main()
{
	const card cards[] = { { 4711, 12 }, { 4712, 34 } };
	const uint16_t digits[] = { 1, 2 };
	const rp_guid token = { { 1, 2, 3 } };
	rp_session_provider provider = {};
	rp_session_options options = {};
	rp_listener *listener;
	rp_listener_event event = {};

	event.size = sizeof(event);
	provider.size = sizeof(provider);
	provider.level = RP_LEVEL_VERBOSE;
	provider.name = "Keys-Of-Cxx";
	options.size = sizeof(options);
	options.providers = &provider;
	options.provider_count = 1;
	if (rp_listener_start(&options, nullptr, nullptr, &listener) != 0)
		return 1;
	keys_all(7, "hunter2", u"hunter2", true, 0.5, &token, &token, "key", 3, digits, 2, cards,
		 cards, 2, "/");
	if (rp_listener_next(listener, &event, PATIENCE_MS) != 1)
		return 1;
	if (event.payload_bytes != sizeof(expected) ||
	    std::memcmp(event.payload, expected, sizeof(expected)) != 0 ||
	    event.fields[0].flags != 0 || event.fields[1].flags != RP_FIELD_SECRET) {
		std::fprintf(stderr, "a payload of %zu bytes is not what it should be\n",
			     event.payload_bytes);
		return 1;
	}
	return rp_listener_stop(listener, nullptr) != 0;
}
