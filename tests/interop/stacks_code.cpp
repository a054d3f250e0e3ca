// SPDX-License-Identifier: MIT
// Code for a stack to lead through: linked, or loaded and taken back. With an event of its own
// (WITH_EVENT) the library learns of it right away, else when it looks.
#include <cstdint>

#ifdef WITH_EVENT
#include <ringpipe/ringpipe.h>

RP_PROVIDER(stacks_code, "Stacks-Code");
RP_EVENT(stacks_code, loaded, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U32(value));

// An object registers only the events that it uses.
__attribute__((used)) static int is_enabled()
{
	return stacks_code_loaded_enabled();
}
#endif

#ifdef __clang__
#define FRAME __attribute__((noinline))
#else
#define FRAME __attribute__((noinline, noclone))
#endif

namespace NAMESPACE {

template <typename T> struct Basket {
	static int check_out(int (*callback)(std::uint32_t), T value);
};

template <typename T> FRAME int Basket<T>::check_out(int (*callback)(std::uint32_t), T value)
{
	int ret = callback(value);

	__asm__ volatile("" : : : "memory");
	return ret;
}

} // namespace NAMESPACE

extern "C" FRAME int ENTRY(int (*callback)(std::uint32_t), std::uint32_t value)
{
	int ret = NAMESPACE::Basket<unsigned int>::check_out(callback, value);

	__asm__ volatile("" : : : "memory");
	return ret;
}
