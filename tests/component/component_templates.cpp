/* SPDX-License-Identifier: MIT */
/* The component with the functions of component.hpp. */
#include <ringpipe/component.hpp>

#define FIRE_DYNAMIC fire_by_macro
#include "component.c"

enum class fruit : short {
	apple = -300,
};

static void fire_dynamic(uint32_t number, const char *text)
{
	using ringpipe::component_field;
	const struct rp_guid guid = { { 0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe } };
	const struct rp_guid *guid_pointer = &guid;
	const std::string copy = text ? text : "";
	const void *pointer = reinterpret_cast<const void *>(4096);

	(void)fire_by_macro;
	if (!rp_component_enabled(&state, RP_COMPONENT_DEFAULT, RP_LEVEL_WARNING,
				  KEYWORD_COLLECTIONS))
		return;
	ringpipe::component_fire_dynamic(
		state, RP_COMPONENT_DEFAULT, RP_LEVEL_WARNING, KEYWORD_COLLECTIONS, "HeapResized",
		component_field("number", count(number)),
		component_field("text", std::string_view(copy)), component_field("yes", true),
		component_field("negative", static_cast<signed char>(-5)),
		component_field("byte", static_cast<unsigned char>(200)),
		component_field("small", fruit::apple),
		component_field("medium", static_cast<unsigned short>(60000)),
		component_field("whole", -70000),
		component_field("large", static_cast<long long>(INT64_MIN)),
		component_field("unsigned", UINT64_MAX), component_field("single", 0.5f),
		component_field("double", 0.1), component_field("pointer", pointer),
		component_field("guid", guid_pointer),
		component_field("blob", ringpipe::component_blob{ "\x01\x02\xff", 3 }));
}
