/* SPDX-License-Identifier: MIT */
/*
 * Events of a component in C++17. component.h works in C++ too; this header adds functions in place
 * of its macros, and more types of fields:
 *
 *	ringpipe::component_fire_dynamic(state, RP_COMPONENT_DEFAULT, RP_LEVEL_VERBOSE,
 *					 CACHE_KEYWORD, "CacheResized",
 *					 ringpipe::component_field("bytes", bytes),
 *					 ringpipe::component_field("reason", reason));
 *
 * The arguments are evaluated even while the event is disabled, as C++ does. Test
 * rp_component_enabled() first if they are expensive.
 */
#ifndef RINGPIPE_COMPONENT_HPP
#define RINGPIPE_COMPONENT_HPP

#include <string>
#include <string_view>
#include <type_traits>

#include <ringpipe/component.h>

namespace ringpipe {

/*
 * A field of a dynamic event: a type of RP_COMPONENT_FIELD, an enumeration, a string, a string
 * view, or a component_blob. The value must live until the event is written.
 */
template<typename T> struct component_field {
	const char *name;
	const T &value;

	component_field(const char *its_name, const T &its_value) : name(its_name), value(its_value)
	{
	}
};

/* Bytes, as the value of a field. */
struct component_blob {
	const void *base;
	size_t bytes;
};

namespace detail {

template<typename T> void component_put(rp_component_payload *payload,
					const component_field<T> &field)
{
	using plain = std::decay_t<T>;

	if constexpr (std::is_enum_v<T>)
		rp_component_put(payload, field.name,
				 static_cast<std::underlying_type_t<T>>(field.value));
	else if constexpr (std::is_convertible_v<plain, const char *>)
		rp_component_put_text(payload, field.name, field.value);
	else if constexpr (std::is_same_v<plain, std::string>)
		rp_component_put_text(payload, field.name, field.value.c_str());
	else if constexpr (std::is_same_v<plain, component_blob>)
		rp_component_put_blob(payload, field.name, field.value.base, field.value.bytes);
	else if constexpr (std::is_same_v<plain, std::string_view>)
		rp_component_put_text_n(payload, field.name, field.value.data(),
					field.value.size());
	else
		rp_component_put(payload, field.name, field.value);
}

} /* namespace detail */

/*
 * Write a dynamic event whose payload describes itself, if a session wants it, as
 * RP_COMPONENT_FIRE_DYNAMIC of component.h.
 */
template<typename... Fields>
inline void component_fire_dynamic(const rp_component_state &state, rp_component_provider provider,
				   rp_level level, uint64_t keywords, const char *name,
				   const Fields &...fields)
{
	rp_component_payload payload;

	if (!rp_component_enabled(&state, provider, level, keywords) || !state.host.fire_dynamic)
		return;
	rp_component_payload_init(&payload);
	(detail::component_put(&payload, fields), ...);
	(void)state.host.fire_dynamic(state.host.context, provider, level, name, payload.bytes,
				      payload.used);
}

} /* namespace ringpipe */

#endif
