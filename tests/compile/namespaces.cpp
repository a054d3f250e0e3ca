/* SPDX-License-Identifier: MIT */
/* Several of everything in one namespace, and used from outside, in templates and in lambdas. */
#include <ringpipe/ringpipe.h>

namespace outer {
namespace inner {
RP_PROVIDER(first, "Namespaces-First");
RP_PROVIDER(second, "Namespaces-Second");
enum shade { DARK, LIGHT };
RP_ENUM(shade, DARK, LIGHT);
RP_STRUCT(place, RP_I32(x), RP_I32(y));
RP_EVENT(first, nothing, 1, RP_LEVEL_INFORMATIONAL, 0);
RP_EVENT(second, point, 1, RP_LEVEL_INFORMATIONAL, 1, RP_STRING(name),
	 RP_STRUCT_FIELD(place, at), RP_ENUM_FIELD(shade, shade));
RP_EVENT(second, later, 2, RP_LEVEL_INFORMATIONAL, 1, RP_U64(n));
RP_COUNTER(second, points, "{point}", "Points");
}
}

template <typename T> void write_both(T n)
{
	auto write = [](uint64_t later) { return outer::inner::second_later(later); };

	outer::inner::first_nothing();
	write(static_cast<uint64_t>(n));
}

int main()
{
	const struct outer::inner::place here = { 1, 2 };

	if (rp_provider_set_callback(outer::inner::first_provider(), nullptr, nullptr) ||
	    rp_provider_set_callback(outer::inner::second_provider(), nullptr, nullptr))
		return 1;
	write_both(3);
	outer::inner::second_points_add(1);
	return outer::inner::second_point("here", &here, outer::inner::DARK);
}
