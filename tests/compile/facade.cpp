/* SPDX-License-Identifier: MIT */
/* Events with C++'s own types, each in a function whose instructions facade_test.py looks at. */
#include <ringpipe/ringpipe.hpp>

#include <array>
#include <vector>

RP_PROVIDER(facade, "Compile-Facade");
RP_STRUCT(place, RP_I32(x), RP_I32(y));
RP_EVENT(facade, texts, 1, RP_LEVEL_INFORMATIONAL, 0, RP_STRING(a), RP_STRING_N(b));
RP_EVENT(facade, lists, 2, RP_LEVEL_INFORMATIONAL, 0, RP_ARRAY(U32, a), RP_BLOB(b));
RP_EVENT(facade, structs, 3, RP_LEVEL_INFORMATIONAL, 0, RP_STRUCT_FIELD(place, a), RP_GUID(b),
	 RP_STRUCT_ARRAY(place, c));

extern "C" {
int write_texts(const std::string &a, std::string_view b);
int write_lists(const std::vector<std::uint32_t> &a, const std::array<unsigned char, 9> &b);
int write_structs(const place &a, const rp_guid &b, const std::vector<place> &c);
}

int write_texts(const std::string &a, std::string_view b)
{
	return facade_texts(a, b);
}

int write_lists(const std::vector<std::uint32_t> &a, const std::array<unsigned char, 9> &b)
{
	return facade_lists(a, b);
}

int write_structs(const place &a, const rp_guid &b, const std::vector<place> &c)
{
	return facade_structs(a, b, c);
}
