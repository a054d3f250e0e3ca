/* SPDX-License-Identifier: MIT */
/*
 * The events of a trace as a range of C++17:
 *
 *	for (const auto &event : ringpipe::reader("live.nettrace"))
 *		if (event.name() == "order_placed")
 *			use(event.get<std::uint64_t>("order_id"), event.text("customer"));
 *
 * The constructor and the range throw std::system_error if a file cannot be read, is no trace, or is
 * damaged. All complete events come first. `what()` has the reader's sentence with the offset, and
 * `code()` the errno that <ringpipe/reader.h> states: ENODATA for a trace without an end, such as
 * that of a killed process. After resume_after_damage(), the range skips damage instead.
 *
 * One thread at a time may use a reader and its events.
 */
#ifndef RINGPIPE_READER_HPP
#define RINGPIPE_READER_HPP

#if !defined(__cplusplus) || __cplusplus < 201703L
#error "reader.hpp needs C++17; reader.h is for C11 and C++11"
#endif

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <ringpipe/field.h>
#include <ringpipe/reader.h>

namespace ringpipe {

namespace detail {

/* Whether a T can express the number. */
template <typename T> bool reader_assign(std::int64_t number, T &ret) noexcept
{
	using limits = std::numeric_limits<T>;

	if constexpr (std::is_signed_v<T>) {
		if (number < static_cast<std::int64_t>(limits::min()) ||
		    number > static_cast<std::int64_t>(limits::max()))
			return false;
	} else {
		if (number < 0 || static_cast<std::uint64_t>(number) > limits::max())
			return false;
	}
	ret = static_cast<T>(number);
	return true;
}

template <typename T> bool reader_assign(std::uint64_t number, T &ret) noexcept
{
	if (number > static_cast<std::uint64_t>(std::numeric_limits<T>::max()))
		return false;
	ret = static_cast<T>(number);
	return true;
}

inline std::string reader_text(const rp_value &value)
{
	std::string text(rp_value_get_text(&value, nullptr, 0), '\0');

	/* The NUL replaces that of the std::string. */
	rp_value_get_text(&value, text.data(), text.size() + 1);
	return text;
}

template <typename T> struct reader_vector : std::false_type {};
template <typename T> struct reader_vector<std::vector<T>> : std::true_type {};

template <typename T> bool reader_convert(const rp_value &value, T &ret);

template <typename T> bool reader_convert_number(const rp_value &value, T &ret) noexcept
{
	switch (static_cast<int>(value.type)) {
	case RP_TYPE_I8:
	case RP_TYPE_I16:
	case RP_TYPE_I32:
	case RP_TYPE_I64:
		return reader_assign(value.i64, ret);
	case RP_TYPE_U8:
	case RP_TYPE_U16:
	case RP_TYPE_U32:
	case RP_TYPE_U64:
	case RP_TYPE_POINTER:
		return reader_assign(value.u64, ret);
	default:
		return false;
	}
}

inline bool reader_convert_time(const rp_value &value,
				std::chrono::system_clock::time_point &ret) noexcept
{
	using duration = std::chrono::system_clock::duration;

	ret = std::chrono::system_clock::time_point(
		std::chrono::duration_cast<duration>(std::chrono::nanoseconds(value.i64)));
	return value.type == RP_TYPE_TIME;
}

template <typename T> bool reader_convert_elements(const rp_value &value, std::vector<T> &ret)
{
	rp_fields elements = value.inner;
	rp_value element = RP_VALUE_INIT;
	int result = 0;

	if (value.type != RP_TYPE_ARRAY)
		return false;
	while ((result = rp_fields_next(&elements, &element)) == 1) {
		T converted{};

		if (!reader_convert(element, converted))
			return false;
		ret.push_back(std::move(converted));
	}
	return result == 0;
}

/* Whether the value is a T. */
template <typename T> bool reader_convert(const rp_value &value, T &ret)
{
	if constexpr (std::is_same_v<T, bool>) {
		ret = value.u64 != 0;
		return value.type == RP_TYPE_BOOL;
	} else if constexpr (std::is_enum_v<T>) {
		std::underlying_type_t<T> number{};
		const bool fits = reader_convert_number(value, number);

		ret = static_cast<T>(number);
		return fits;
	} else if constexpr (std::is_integral_v<T>) {
		return reader_convert_number(value, ret);
	} else if constexpr (std::is_floating_point_v<T>) {
		ret = static_cast<T>(value.f64);
		return value.type == RP_TYPE_F32 || value.type == RP_TYPE_F64;
	} else if constexpr (std::is_same_v<T, std::string>) {
		ret = reader_text(value);
		return value.type == RP_TYPE_STRING || value.type == RP_TYPE_STRING16 ||
		       value.type == RP_TYPE_CHAR;
	} else if constexpr (std::is_same_v<T, rp_guid>) {
		ret = value.guid;
		return value.type == RP_TYPE_GUID;
	} else if constexpr (std::is_same_v<T, std::chrono::system_clock::time_point>) {
		return reader_convert_time(value, ret);
	} else {
		static_assert(reader_vector<T>::value, "a type that no field has; see event::get()");
		return reader_convert_elements(value, ret);
	}
}

}

/* A trace: a range that is read once, from begin() to end(). */
class reader {
public:
	/*
	 * One event. The object, and all that it returns by reference or as a std::string_view, is
	 * valid until the iterator moves on. raw() has what no function here returns.
	 */
	class event {
	public:
		std::string_view provider() const noexcept { return raw_.type->provider; }
		std::string_view name() const noexcept { return raw_.type->name; }
		std::uint32_t id() const noexcept { return raw_.type->id; }
		std::uint32_t level() const noexcept { return raw_.level; }
		std::uint64_t keywords() const noexcept { return raw_.keywords; }
		std::uint64_t process() const noexcept { return raw_.process; }
		std::uint64_t thread() const noexcept { return raw_.thread; }
		std::string_view thread_name() const noexcept { return raw_.thread_name; }
		std::uint32_t processor() const noexcept { return raw_.processor; }
		const rp_guid &activity() const noexcept { return raw_.activity; }
		const rp_guid &related_activity() const noexcept { return raw_.related_activity; }
		const rp_reader_event &raw() const noexcept { return raw_; }

		/* The time since the start of the recording. */
		std::chrono::nanoseconds time() const noexcept
		{
			return std::chrono::nanoseconds(raw_.time_ns);
		}

		/* The return addresses, innermost first; empty: the event has no stack. */
		std::vector<std::uint64_t> stack() const
		{
			std::vector<std::uint64_t> frames(raw_.frame_count);
			const char *from = static_cast<const char *>(raw_.frames);

			for (std::uint64_t &frame : frames) {
				std::memcpy(&frame, from, pointer_bytes_);
				from += pointer_bytes_;
			}
			return frames;
		}

		/* Begin a walk over the fields by rp_fields_next(). */
		rp_fields fields() const noexcept
		{
			rp_fields walk;

			rp_reader_get_fields(&raw_, &walk);
			return walk;
		}

		/*
		 * Return the value of a field, or std::nullopt if the event has no field of this
		 * name or its payload ends before the field.
		 *
		 * T is bool, an integer, an enumeration, a floating type, std::string (in UTF-8),
		 * rp_guid, std::chrono::system_clock::time_point, or a std::vector of these. The
		 * function throws std::invalid_argument if the field is of another kind or if T
		 * cannot express the number.
		 */
		template <typename T> std::optional<T> find(const char *field) const
		{
			rp_value value = RP_VALUE_INIT;
			const rp_fields walk = fields();
			T converted{};

			if (rp_fields_find(&walk, field, &value) < 0)
				return std::nullopt;
			if (!detail::reader_convert(value, converted))
				throw std::invalid_argument(describe(field) +
							    " is not of the requested type");
			return converted;
		}

		/* Return what find() returns; throw std::out_of_range if there is no value. */
		template <typename T> T get(const char *field) const
		{
			std::optional<T> found = find<T>(field);

			if (!found)
				throw std::out_of_range(describe(field) + " has no value");
			return std::move(*found);
		}

		/* Return a string or character in UTF-8, as get<std::string>() does. */
		std::string text(const char *field) const { return get<std::string>(field); }

	private:
		friend class reader;

		std::string describe(const char *field) const
		{
			return std::string(provider()).append("/").append(name()).append(": ")
				.append(field);
		}

		rp_reader_event raw_ = RP_READER_EVENT_INIT;
		std::size_t pointer_bytes_ = 0;
	};

	class iterator {
	public:
		using iterator_category = std::input_iterator_tag;
		using value_type = event;
		using difference_type = std::ptrdiff_t;
		using pointer = const event *;
		using reference = const event &;

		iterator() noexcept = default;
		reference operator*() const noexcept { return reader_->event_; }
		pointer operator->() const noexcept { return &reader_->event_; }

		iterator &operator++()
		{
			if (!reader_->next())
				reader_ = nullptr;
			return *this;
		}

		void operator++(int) { ++*this; }

		friend bool operator==(const iterator &a, const iterator &b) noexcept
		{
			return a.reader_ == b.reader_;
		}

		friend bool operator!=(const iterator &a, const iterator &b) noexcept
		{
			return !(a == b);
		}

	private:
		friend class reader;

		explicit iterator(reader *from) noexcept : reader_(from) {}

		reader *reader_ = nullptr;
	};

	/* Open a file. */
	explicit reader(const char *path) : fd_(::open(path, O_RDONLY | O_CLOEXEC))
	{
		if (fd_ < 0)
			throw_error(errno, path);
		open(fd_, path);
	}

	explicit reader(const std::string &path) : reader(path.c_str()) {}

	/* Open a pipe, a socket or a file. The caller closes the descriptor after the reader. */
	static reader of_descriptor(int fd)
	{
		reader opened;

		opened.open(fd, "descriptor");
		return opened;
	}

	/* Open a trace in memory, which must stay unchanged while the reader exists. */
	static reader of_memory(const void *bytes, std::size_t size)
	{
		reader opened;
		const int ret = rp_reader_open_memory(bytes, size, &opened.reader_);

		if (ret < 0)
			throw_error(-ret, not_a_trace);
		opened.take_info();
		return opened;
	}

	reader(const reader &) = delete;
	reader &operator=(const reader &) = delete;

	/* A move invalidates the iterators of both readers. */
	reader(reader &&other) noexcept :
		fd_(std::exchange(other.fd_, -1)), reader_(std::exchange(other.reader_, nullptr)),
		event_(other.event_) {}

	reader &operator=(reader &&other) noexcept
	{
		std::swap(fd_, other.fd_);
		std::swap(reader_, other.reader_);
		std::swap(event_, other.event_);
		return *this;
	}

	~reader()
	{
		rp_reader_close(reader_);
		if (fd_ >= 0)
			::close(fd_);
	}

	/*
	 * Continue after damage, as rp_reader_resume_after_damage() does. Call this function before
	 * begin(): after the first event, the function throws std::system_error.
	 */
	void resume_after_damage()
	{
		const int ret = rp_reader_resume_after_damage(reader_);

		if (ret < 0)
			throw_error(-ret, "resume_after_damage");
	}

	/*
	 * Read only the events from one time on and before another, since the start of the
	 * recording, as rp_reader_set_range() does. Call it before begin(). It throws if the range
	 * is empty or an event was read.
	 */
	void set_range(std::chrono::nanoseconds from, std::chrono::nanoseconds to)
	{
		rp_reader_range range = RP_READER_RANGE_INIT;
		int ret;

		range.from_ns = from.count();
		range.to_ns = to.count();
		ret = rp_reader_set_range(reader_, &range);
		if (ret < 0)
			throw_error(-ret, "set_range");
	}

	/* The damaged ranges skipped so far, up to the number that the reader remembers. */
	std::vector<rp_reader_damage> damage() const
	{
		std::vector<rp_reader_damage> ranges;
		rp_reader_damage range = RP_READER_DAMAGE_INIT;

		while (rp_reader_get_damage(reader_, ranges.size(), &range) == 0)
			ranges.push_back(range);
		return ranges;
	}

	/* Read the next event. A second call of begin() continues after the current event. */
	iterator begin() { return iterator(next() ? this : nullptr); }
	iterator end() const noexcept { return iterator(); }

	rp_reader_info info() const noexcept
	{
		rp_reader_info info = RP_READER_INFO_INIT;

		(void)rp_reader_get_info(reader_, &info);
		return info;
	}

	/* The stats of the events read so far. */
	rp_reader_stats stats() const noexcept
	{
		rp_reader_stats stats = RP_READER_STATS_INIT;

		(void)rp_reader_get_stats(reader_, &stats);
		return stats;
	}

	/* The reader for the functions of <ringpipe/reader.h>, which this object still owns. */
	rp_reader *handle() const noexcept { return reader_; }

private:
	static constexpr const char *not_a_trace =
		"not a nettrace file, or its beginning is damaged";

	reader() noexcept = default;

	[[noreturn]] static void throw_error(int error, const std::string &sentence)
	{
		throw std::system_error(error, std::generic_category(), sentence);
	}

	void open(int fd, const char *name)
	{
		char said[256] = "";
		const int ret = rp_reader_open_explained(fd, &reader_, said, sizeof(said));
		std::string sentence = name;

		if (ret == 0) {
			take_info();
			return;
		}
		/* The destructor does not run after an exception of the constructor. */
		if (fd_ >= 0)
			::close(std::exchange(fd_, -1));
		if (ret == -EBADMSG)
			sentence.append(": ").append(not_a_trace);
		if (*said)
			sentence.append(": ").append(said);
		throw_error(-ret, sentence);
	}

	void take_info() noexcept { event_.pointer_bytes_ = info().pointer_bytes; }

	bool next()
	{
		const int ret = rp_reader_next(reader_, &event_.raw_);

		if (ret < 0)
			throw_error(-ret, rp_reader_error(reader_));
		return ret != 0;
	}

	int fd_ = -1;
	rp_reader *reader_ = nullptr;
	event event_;
};

}

#endif
