/* SPDX-License-Identifier: MIT */
/*
 * Uses reader.hpp on the traces that range_test.py writes.
 *
 * usage: range CASE FILE. The output has a line for each event; the last line is the exception.
 */
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <sstream>

#include <ringpipe/reader.hpp>

namespace {

enum class shade : std::uint8_t { dark = 255 };

void print_guid(const rp_guid &guid)
{
	for (const unsigned char byte : guid.bytes)
		std::printf("%02x", static_cast<unsigned int>(byte));
	std::printf(" ");
}

void print_ids(ringpipe::reader trace)
{
	for (const auto &event : trace) {
		std::printf("%s/%s %" PRIu32 " %" PRIu32 " %" PRIu64 " %lld %" PRIu64 " %" PRIu64
			    " '%s' %" PRIu32 " ", std::string(event.provider()).c_str(),
			    std::string(event.name()).c_str(), event.id(), event.level(),
			    event.keywords(), static_cast<long long>(event.time().count()),
			    event.process(), event.thread(),
			    std::string(event.thread_name()).c_str(), event.processor());
		print_guid(event.activity());
		print_guid(event.related_activity());
		for (const std::uint64_t frame : event.stack())
			std::printf("%" PRIx64 " ", frame);
		std::printf("n=%" PRIu32 " labels=%" PRIu32 "\n", event.get<std::uint32_t>("n"),
			    event.raw().label_count);
	}
	std::printf("version %" PRIu32 " events %" PRIu64 " ended %" PRIu32 "\n",
		    trace.info().version, trace.stats().events, trace.stats().ended);
}

template <typename T> void print_refusal(const ringpipe::reader::event &event, const char *field)
{
	try {
		(void)event.get<T>(field);
		std::printf("%s: no exception\n", field);
	} catch (const std::invalid_argument &error) {
		std::printf("invalid: %s\n", error.what());
	} catch (const std::out_of_range &error) {
		std::printf("range: %s\n", error.what());
	}
}

template <typename T> void print_numbers(const ringpipe::reader::event &event, const char *field)
{
	std::printf("%s:", field);
	for (const T number : event.get<std::vector<T>>(field))
		std::printf(" %lld", static_cast<long long>(number));
	std::printf("\n");
}

/* The event of all_types_v6() in traces.py. */
void print_types(ringpipe::reader trace)
{
	const ringpipe::reader::event &event = *trace.begin();

	std::printf("%d %d %s %s\n", event.get<bool>("b32"), event.get<bool>("b8"),
		    event.text("c16").c_str(), event.text("c8").c_str());
	std::printf("%d %d %d %d\n", static_cast<int>(event.get<std::int8_t>("i8")),
		    static_cast<int>(event.get<shade>("u8")), event.get<short>("i16"),
		    event.get<int>("u16"));
	std::printf("%" PRId64 " %" PRIu64 " %" PRId64 "\n", event.get<std::int64_t>("i64"),
		    event.get<std::uint64_t>("u64"), event.get<std::int64_t>("vi"));
	std::printf("%g %g\n", static_cast<double>(event.get<float>("f32")),
		    event.get<double>("f64"));
	print_guid(event.get<rp_guid>("guid"));
	std::printf("%s %s %s\n", event.text("text").c_str(), event.text("utf16").c_str(),
		    event.text("name8").c_str());
	print_numbers<std::uint32_t>(event, "ints");
	print_numbers<int>(event, "vis");
	print_numbers<std::uint16_t>(event, "three");
	std::printf("%d %d\n", event.find<int>("nothing").has_value(),
		    event.find<int>("i32").has_value());
	print_refusal<std::uint8_t>(event, "i8");
	print_refusal<std::int64_t>(event, "u64");
	print_refusal<std::string>(event, "u8");
	print_refusal<int>(event, "text");
	print_refusal<std::vector<std::string>>(event, "ints");
	print_refusal<int>(event, "nothing");
}

/* A time, and fields that the payload does not reach: the events of all_types_v4(). */
void print_cut(ringpipe::reader trace)
{
	using std::chrono::system_clock;
	using std::chrono::nanoseconds;
	auto at = trace.begin();
	const auto time = at->get<system_clock::time_point>("time").time_since_epoch();

	std::printf("%lld %s\n", static_cast<long long>(nanoseconds(time).count()),
		    at->text("broken").c_str());
	++at;
	std::printf("%d\n", at->find<bool>("bool").has_value());
	print_refusal<bool>(*at, "bool");
	std::printf("%td\n", 2 + std::count_if(++at, trace.end(), [](const auto &event) {
		return !event.template find<std::string>("empty");
	}));
}

void print_orders(ringpipe::reader trace)
{
	for (const auto &event : trace)
		std::printf("%" PRIu64 "\n", event.get<std::uint64_t>("order_id"));
}

void print_resumed(ringpipe::reader trace)
{
	trace.resume_after_damage();
	for (const auto &event : trace)
		std::printf("%" PRIu64 "\n", event.get<std::uint64_t>("order_id"));
	for (const auto &range : trace.damage())
		std::printf("%" PRIu64 ": %s\n", range.offset, range.reason);
	trace.resume_after_damage();
}

void print_range(ringpipe::reader trace)
{
	using namespace std::chrono_literals;

	trace.set_range(1001us, 2001us);
	for (const auto &event : trace)
		std::printf("%" PRIu64 "\n", event.get<std::uint64_t>("order_id"));
	trace.set_range(2s, 1s);
}

int run(const std::string &name, const char *path)
{
	if (name == "ids") {
		print_ids(ringpipe::reader(std::string(path)));
	} else if (name == "types") {
		print_types(ringpipe::reader(path));
	} else if (name == "cut") {
		print_cut(ringpipe::reader(path));
	} else if (name == "orders") {
		print_orders(ringpipe::reader(path));
	} else if (name == "resumed") {
		print_resumed(ringpipe::reader(path));
	} else if (name == "range") {
		print_range(ringpipe::reader(path));
	} else if (name == "stdin") {
		print_orders(ringpipe::reader::of_descriptor(STDIN_FILENO));
	} else if (name == "move") {
		ringpipe::reader one(path), two(path);

		print_orders(std::move(one));
		one = std::move(two);
		ringpipe::reader three(std::move(one));
		print_orders(std::move(three));
	} else if (name == "memory") {
		std::ostringstream all;

		all << std::ifstream(path, std::ios::binary).rdbuf();
		const std::string bytes = all.str();
		print_orders(ringpipe::reader::of_memory(bytes.data(), bytes.size()));
	} else {
		return 2;
	}
	return 0;
}

}

static_assert(std::is_nothrow_move_constructible_v<ringpipe::reader>);
static_assert(std::is_nothrow_move_assignable_v<ringpipe::reader>);
static_assert(!std::is_copy_constructible_v<ringpipe::reader>);

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	try {
		return run(argv[1], argv[2]);
	} catch (const std::system_error &error) {
		std::printf("%s: %s\n", std::generic_category() == error.code().category() ?
			    "system_error" : "other", error.what());
		return error.code().value();
	}
}
