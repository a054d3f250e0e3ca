/* SPDX-License-Identifier: MIT */
/*
 * ringpipe for C++17: the declarations of ringpipe.h, and functions that accept the types of C++.
 *
 *	RP_PROVIDER(shop, "Shop-Orders");
 *	RP_EVENT(shop, order_placed, 1, RP_LEVEL_INFORMATIONAL, 0,
 *		 RP_U64(order_id), RP_STRING_N(customer), RP_ARRAY(U32, articles));
 *	RP_SPAN(shop, checkout, RP_U64(order_id));
 *
 *	std::string_view customer; std::vector<std::uint32_t> articles;
 *	shop_order_placed(id, customer, articles);
 *	shop_checkout_scope scope{id};		the span ends with its block
 *
 * A disabled event costs two instructions, as in C. Include this header before the declarations. In
 * addition to the types of C, fields accept these types:
 *
 *	RP_STRING		std::string
 *	RP_STRING_N		anything that converts to std::string_view
 *	RP_STRING16		std::u16string
 *	RP_BLOB			containers with data() and size(), and arrays, of trivial elements
 *	RP_ARRAY		the same, of the field's element type
 *	RP_STRUCT_FIELD		a reference
 *	RP_STRUCT_ARRAY		as RP_ARRAY
 *	RP_GUID			a reference
 *	RP_ENUM_FIELD		an enumeration, scoped or not
 *	RP_TIME			std::chrono::system_clock::time_point
 *
 * No function of this header throws or allocates.
 */
#ifndef RINGPIPE_HPP
#define RINGPIPE_HPP

#if !defined(__cplusplus) || __cplusplus < 201703L
#error "ringpipe.hpp needs C++17; ringpipe.h is for C11 and C++11"
#endif

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <ringpipe/ringpipe.h>

namespace ringpipe {

/* A NUL-terminated string. */
template <typename Char> class c_text {
public:
	constexpr c_text(const Char *chars) noexcept : chars_(chars) {}
	c_text(const std::basic_string<Char> &text) noexcept : chars_(text.c_str()) {}
	constexpr const Char *chars() const noexcept { return chars_; }

private:
	const Char *chars_;
};

/* Contiguous elements. The caller keeps their memory valid until the call returns. */
template <typename T> class array {
public:
	constexpr array(const T *data, std::size_t count) noexcept : data_(data), count_(count) {}

	template <std::size_t N>
	constexpr array(const T (&elements)[N]) noexcept : data_(elements), count_(N) {}

	template <typename Container,
		  typename = std::enable_if_t<std::is_convertible_v<
			decltype(std::declval<const Container &>().data()), const T *>>,
		  typename = decltype(std::declval<const Container &>().size())>
	constexpr array(const Container &container) noexcept :
		data_(container.data()), count_(container.size()) {}

	constexpr const T *data() const noexcept { return data_; }
	constexpr std::size_t count() const noexcept { return count_; }

private:
	const T *data_;
	std::size_t count_;
};

/* The bytes of contiguous elements. */
class bytes {
public:
	constexpr bytes(const void *data, std::size_t size) noexcept : data_(data), size_(size) {}

	template <typename T, std::size_t N>
	constexpr bytes(const T (&elements)[N]) noexcept : data_(elements), size_(sizeof(elements))
	{
		static_assert(std::is_trivially_copyable_v<T>, "a blob is of trivial elements");
	}

	template <typename Container,
		  typename T = std::remove_pointer_t<
			decltype(std::declval<const Container &>().data())>,
		  typename = decltype(std::declval<const Container &>().size())>
	constexpr bytes(const Container &container) noexcept :
		data_(container.data()), size_(container.size() * sizeof(T))
	{
		static_assert(std::is_trivially_copyable_v<T>, "a blob is of trivial elements");
	}

	constexpr const void *data() const noexcept { return data_; }
	constexpr std::size_t size() const noexcept { return size_; }

private:
	const void *data_;
	std::size_t size_;
};

/* A struct or a GUID, passed by reference, or by pointer as in C. */
template <typename T> class reference {
public:
	constexpr reference(const T &value) noexcept : pointer_(&value) {}
	constexpr reference(const T *pointer) noexcept : pointer_(pointer) {}
	constexpr const T *pointer() const noexcept { return pointer_; }

private:
	const T *pointer_;
};

/* A value of any enumeration, or a number as in C. */
class enumerator {
public:
	template <typename T, typename = std::enable_if_t<std::is_enum_v<T> ||
							  std::is_integral_v<T>>>
	constexpr enumerator(T value) noexcept : value_(static_cast<std::int32_t>(value)) {}
	constexpr std::int32_t value() const noexcept { return value_; }

private:
	std::int32_t value_;
};

/* Nanoseconds since 1970 UTC. */
class utc_time {
public:
	constexpr utc_time(std::int64_t ns) noexcept : ns_(ns) {}

	template <typename Duration>
	constexpr utc_time(std::chrono::time_point<std::chrono::system_clock, Duration> time)
		noexcept : ns_(std::chrono::duration_cast<std::chrono::nanoseconds>(
			time.time_since_epoch()).count()) {}

	constexpr std::int64_t ns() const noexcept { return ns_; }

private:
	std::int64_t ns_;
};

namespace detail {

template <typename T> constexpr T scalar(T value) noexcept { return value; }
constexpr std::int64_t scalar(utc_time time) noexcept { return time.ns(); }

/* Calls the function of RP_JSON for a level while temporary strings exist. */
inline void write_json(void (*write)(const char *, const char *, std::size_t), c_text<char> source,
		       std::string_view json) noexcept
{
	write(source.chars(), json.data(), json.size());
}

/* NULL counts as the empty text. */
inline void write_json(void (*write)(const char *, const char *, std::size_t), c_text<char> source,
		       const char *json) noexcept
{
	write(source.chars(), json, json ? std::strlen(json) : 0);
}

/* `Tag` makes the condition depend on a template parameter if no other type does. */
template <typename Tag, typename Function, typename... Arguments>
using unless_invocable = std::enable_if_t<std::is_void_v<Tag> &&
					  !std::is_invocable_v<Function, Arguments...>>;

}

/*
 * Counters with tags: ringpipe::add(shop_orders_counter(), 1, { { "payment", "card" } }). The
 * results are those of rp_counter_add_tagged() and rp_counter_record_tagged().
 */
using tags = std::initializer_list<rp_counter_tag>;

inline int add(rp_counter *counter, std::int64_t by, tags list) noexcept
{
	return rp_counter_add_tagged(counter, by, list.begin(), list.size());
}

inline int record(rp_counter *counter, double value, tags list) noexcept
{
	return rp_counter_record_tagged(counter, value, list.begin(), list.size());
}

/*
 * Records the duration of a block in a histogram, in units of Period:
 *
 *	ringpipe::timer<std::milli> timer{shop_order_time_counter()};
 */
template <typename Period = std::ratio<1>> class timer {
public:
	explicit timer(rp_counter *histogram) noexcept :
		histogram_(histogram), begun_(std::chrono::steady_clock::now()) {}
	timer(const timer &) = delete;
	timer &operator=(const timer &) = delete;

	~timer()
	{
		const std::chrono::duration<double, Period> time =
			std::chrono::steady_clock::now() - begun_;

		(void)rp_counter_record(histogram_, time.count());
	}

private:
	rp_counter *histogram_;
	std::chrono::steady_clock::time_point begun_;
};

}

/* Fields as parameters of the C++ function, and as arguments of the C function that it calls. */
#define RP_CPP_PARAM_(t) RP_CPP_PARAM_I_ t
#define RP_CPP_PARAM_I_(kind, ...) RP_CPP_PARAM_##kind(__VA_ARGS__)
#define RP_CPP_PARAM_SCALAR(T, n) RP_CPP_PARAM_OF_##T n
#define RP_CPP_PARAM_GUID(n) ::ringpipe::reference< ::rp_guid> n
#define RP_CPP_PARAM_STRING(n) ::ringpipe::c_text<char> n
#define RP_CPP_PARAM_STRING_N(n) ::std::string_view n
#define RP_CPP_PARAM_STRING16(n) ::ringpipe::c_text<char16_t> n
#define RP_CPP_PARAM_BLOB(n) ::ringpipe::bytes n
#define RP_CPP_PARAM_ARRAY(T, n) ::ringpipe::array<RP_CTYPE_##T> n
#define RP_CPP_PARAM_STRUCT(tag, n) ::ringpipe::reference<struct tag> n
#define RP_CPP_PARAM_STRUCTS(tag, n) ::ringpipe::array<struct tag> n
#define RP_CPP_PARAM_ENUM_(tag, n) ::ringpipe::enumerator n
#define RP_CPP_PARAM_SECRET_(t) RP_WITHIN_(RP_CPP_PARAM_, RP_BARE_ t)

#define RP_CPP_PARAM_OF_BOOL RP_CTYPE_BOOL
#define RP_CPP_PARAM_OF_CHAR RP_CTYPE_CHAR
#define RP_CPP_PARAM_OF_I8 RP_CTYPE_I8
#define RP_CPP_PARAM_OF_U8 RP_CTYPE_U8
#define RP_CPP_PARAM_OF_I16 RP_CTYPE_I16
#define RP_CPP_PARAM_OF_U16 RP_CTYPE_U16
#define RP_CPP_PARAM_OF_I32 RP_CTYPE_I32
#define RP_CPP_PARAM_OF_U32 RP_CTYPE_U32
#define RP_CPP_PARAM_OF_I64 RP_CTYPE_I64
#define RP_CPP_PARAM_OF_U64 RP_CTYPE_U64
#define RP_CPP_PARAM_OF_F32 RP_CTYPE_F32
#define RP_CPP_PARAM_OF_F64 RP_CTYPE_F64
#define RP_CPP_PARAM_OF_POINTER RP_CTYPE_POINTER
#define RP_CPP_PARAM_OF_TIME ::ringpipe::utc_time

#define RP_CPP_ARG_(t) RP_CPP_ARG_I_ t
#define RP_CPP_ARG_I_(kind, ...) RP_CPP_ARG_##kind(__VA_ARGS__)
#define RP_CPP_ARG_SCALAR(T, n) ::ringpipe::detail::scalar(n)
#define RP_CPP_ARG_GUID(n) n.pointer()
#define RP_CPP_ARG_STRING(n) n.chars()
#define RP_CPP_ARG_STRING_N(n) n.data(), n.size()
#define RP_CPP_ARG_STRING16(n) n.chars()
#define RP_CPP_ARG_BLOB(n) n.data(), n.size()
#define RP_CPP_ARG_ARRAY(T, n) n.data(), n.count()
#define RP_CPP_ARG_STRUCT(tag, n) n.pointer()
#define RP_CPP_ARG_STRUCTS(tag, n) n.data(), n.count()
#define RP_CPP_ARG_ENUM_(tag, n) n.value()
#define RP_CPP_ARG_SECRET_(t) RP_WITHIN_(RP_CPP_ARG_, RP_BARE_ t)

/*
 * Fields as parameters of a template. The template passes numbers by value and everything else by
 * reference, so all conversions happen in the function that is called after the enable test.
 */
#define RP_CPP_TYPENAME_(t) RP_CPP_TYPENAME_I_ t
#define RP_CPP_TYPENAME_I_(kind, ...) RP_CPP_TYPENAME_##kind(__VA_ARGS__)
#define RP_CPP_TYPENAME_SCALAR(T, n) , typename n##_type = int
#define RP_CPP_TYPENAME_GUID(n) , typename n##_type
#define RP_CPP_TYPENAME_STRING(n) , typename n##_type
#define RP_CPP_TYPENAME_STRING_N(n) , typename n##_type
#define RP_CPP_TYPENAME_STRING16(n) , typename n##_type
#define RP_CPP_TYPENAME_BLOB(n) , typename n##_type
#define RP_CPP_TYPENAME_ARRAY(T, n) , typename n##_type
#define RP_CPP_TYPENAME_STRUCT(tag, n) , typename n##_type
#define RP_CPP_TYPENAME_STRUCTS(tag, n) , typename n##_type
#define RP_CPP_TYPENAME_ENUM_(tag, n) , typename n##_type
#define RP_CPP_TYPENAME_SECRET_(t) RP_WITHIN_(RP_CPP_TYPENAME_, RP_BARE_ t)

#define RP_CPP_GIVEN_(t) RP_CPP_TYPE_(t) RP_CPP_NAME_(t)
#define RP_CPP_AND_TYPE_(t) , RP_CPP_TYPE_(t)
#define RP_CPP_TYPE_(t) RP_CPP_TYPE_I_ t
#define RP_CPP_TYPE_I_(kind, ...) RP_CPP_TYPE_##kind(__VA_ARGS__)
#define RP_CPP_TYPE_SCALAR(T, n) RP_CPP_TYPE_OF_##T(n)
#define RP_CPP_TYPE_GUID(n) const n##_type &
#define RP_CPP_TYPE_STRING(n) const n##_type &
#define RP_CPP_TYPE_STRING_N(n) const n##_type &
#define RP_CPP_TYPE_STRING16(n) const n##_type &
#define RP_CPP_TYPE_BLOB(n) const n##_type &
#define RP_CPP_TYPE_ARRAY(T, n) const n##_type &
#define RP_CPP_TYPE_STRUCT(tag, n) const n##_type &
#define RP_CPP_TYPE_STRUCTS(tag, n) const n##_type &
#define RP_CPP_TYPE_ENUM_(tag, n) const n##_type &
#define RP_CPP_TYPE_SECRET_(t) RP_WITHIN_(RP_CPP_TYPE_, RP_BARE_ t)

#define RP_CPP_TYPE_OF_BOOL(n) RP_CTYPE_BOOL
#define RP_CPP_TYPE_OF_CHAR(n) RP_CTYPE_CHAR
#define RP_CPP_TYPE_OF_I8(n) RP_CTYPE_I8
#define RP_CPP_TYPE_OF_U8(n) RP_CTYPE_U8
#define RP_CPP_TYPE_OF_I16(n) RP_CTYPE_I16
#define RP_CPP_TYPE_OF_U16(n) RP_CTYPE_U16
#define RP_CPP_TYPE_OF_I32(n) RP_CTYPE_I32
#define RP_CPP_TYPE_OF_U32(n) RP_CTYPE_U32
#define RP_CPP_TYPE_OF_I64(n) RP_CTYPE_I64
#define RP_CPP_TYPE_OF_U64(n) RP_CTYPE_U64
#define RP_CPP_TYPE_OF_F32(n) RP_CTYPE_F32
#define RP_CPP_TYPE_OF_F64(n) RP_CTYPE_F64
#define RP_CPP_TYPE_OF_POINTER(n) RP_CTYPE_POINTER
#define RP_CPP_TYPE_OF_TIME(n) const n##_type &

#define RP_CPP_NAME_(t) RP_CPP_NAME_I_ t
#define RP_CPP_NAME_I_(kind, ...) RP_CPP_NAME_##kind(__VA_ARGS__)
#define RP_CPP_NAME_SCALAR(T, n) n
#define RP_CPP_NAME_GUID(n) n
#define RP_CPP_NAME_STRING(n) n
#define RP_CPP_NAME_STRING_N(n) n
#define RP_CPP_NAME_STRING16(n) n
#define RP_CPP_NAME_BLOB(n) n
#define RP_CPP_NAME_ARRAY(T, n) n
#define RP_CPP_NAME_STRUCT(tag, n) n
#define RP_CPP_NAME_STRUCTS(tag, n) n
#define RP_CPP_NAME_ENUM_(tag, n) n
#define RP_CPP_NAME_SECRET_(t) RP_WITHIN_(RP_CPP_NAME_, RP_BARE_ t)

/* Removes the template if the C function accepts the arguments without a conversion. */
#define RP_CPP_UNLESS_C_(...) \
	, typename = ::ringpipe::detail::unless_invocable<rp_tag_, \
		int (*)(RP_MAP_(RP_PARAM_, RP_COMMA_, __VA_ARGS__)) \
		RP_MAP_(RP_CPP_AND_TYPE_, RP_NOTHING_, __VA_ARGS__)>
#undef RP_EVENT_CPP_EMIT_
#define RP_EVENT_CPP_EMIT_(name, ...) \
	RP_OUT_OF_LINE_ int name##_converted_(RP_MAP_(RP_CPP_PARAM_, RP_COMMA_, __VA_ARGS__)) \
	{ \
		return name##_write_(RP_MAP_(RP_CPP_ARG_, RP_COMMA_, __VA_ARGS__)); \
	} \
	extern "C++" { \
	template <typename rp_tag_ = void \
		  RP_MAP_(RP_CPP_TYPENAME_, RP_NOTHING_, __VA_ARGS__) \
		  RP_CPP_UNLESS_C_(__VA_ARGS__)> \
	RP_INLINE_ int name(RP_MAP_(RP_CPP_GIVEN_, RP_COMMA_, __VA_ARGS__)) \
	{ \
		RP_CAT_(RP_GATE_, RP_STATIC_KEYS)(name##_event_.enable, wanted); \
		return 0; \
	wanted: RP_COLD_LABEL_; \
		RP_CAT_(RP_GATE_AGAIN_, RP_STATIC_KEYS)(name##_event_.enable) \
		return name##_converted_(RP_MAP_(RP_CPP_NAME_, RP_COMMA_, __VA_ARGS__)); \
	} \
	}

#undef RP_JSON
#define RP_JSON(provider, level, source, json) \
	do { \
		if (__builtin_expect(provider##_json_##level##_enabled_(), 0)) \
			::ringpipe::detail::write_json(provider##_json_##level##_, source, json); \
	} while (0)

#undef RP_SPAN_CPP_EMIT_0_
#define RP_SPAN_CPP_EMIT_0_(name) \
	class name##_scope { \
	public: \
		name##_scope() noexcept { name##_enter(&scope_); } \
		RP_SPAN_CPP_END_(name)
#undef RP_SPAN_CPP_EMIT_N_
#define RP_SPAN_CPP_EMIT_N_(name, ...) \
	RP_OUT_OF_LINE_ void name##_converted_( \
		::rp_span_scope *scope_, RP_MAP_(RP_CPP_PARAM_, RP_COMMA_, __VA_ARGS__)) \
	{ \
		name##_enter_(scope_, RP_MAP_(RP_CPP_ARG_, RP_COMMA_, __VA_ARGS__)); \
	} \
	class name##_scope { \
	public: \
		template <int = 0 RP_MAP_(RP_CPP_TYPENAME_, RP_NOTHING_, __VA_ARGS__)> \
		explicit name##_scope(RP_MAP_(RP_CPP_GIVEN_, RP_COMMA_, __VA_ARGS__)) noexcept \
		{ \
			scope_.span.begun_ns = 0; \
			if (__builtin_expect(name##_wanted_(), 0)) \
				name##_converted_(&scope_, RP_MAP_(RP_CPP_NAME_, RP_COMMA_, \
								   __VA_ARGS__)); \
		} \
		RP_SPAN_CPP_END_(name)
#define RP_SPAN_CPP_END_(name) \
		name##_scope(const name##_scope &) = delete; \
		name##_scope &operator=(const name##_scope &) = delete; \
		~name##_scope() { name##_leave(&scope_); } \
	private: \
		::rp_span_scope scope_; \
	};

#endif
