/* SPDX-License-Identifier: MIT */
/*
 * A sink of spdlog whose lines become events of the provider `ringpipe-spdlog`:
 *
 *	#include <ringpipe/sinks/spdlog.hpp>
 *
 *	logger->sinks().push_back(std::make_shared<ringpipe::spdlog_sink>());
 *
 * There is one event for each level of ringpipe: critical, error (spdlog's err), warning,
 * informational (info) and verbose (debug and trace). Its fields are the text without spdlog's
 * pattern, the name of the logger, and the source file and line, which are empty and 0 unless the
 * program logs with SPDLOG_INFO() and the similar macros.
 *
 * The sink has no lock, so it serves loggers of one thread and of several threads alike. While no
 * session wants a level, a line of it costs the sink one test. A logger drops lines below its own
 * level before any sink gets them.
 *
 * The header needs C++17, and spdlog 1.5 or later.
 */
#ifndef RINGPIPE_SINKS_SPDLOG_HPP
#define RINGPIPE_SINKS_SPDLOG_HPP

#include <memory>
#include <string_view>

#include <spdlog/common.h>
#include <spdlog/details/log_msg.h>
#include <spdlog/formatter.h>
#include <spdlog/sinks/sink.h>

#include <ringpipe/ringpipe.hpp>

RP_PROVIDER(ringpipe_spdlog, "ringpipe-spdlog");

#define RP_SPDLOG_EVENT_(event, id, level) \
	RP_EVENT(ringpipe_spdlog, event, id, level, 0, RP_STRING_N(text), RP_STRING_N(logger), \
		 RP_STRING(file), RP_U32(line))
RP_SPDLOG_EVENT_(critical, 1, RP_LEVEL_CRITICAL);
RP_SPDLOG_EVENT_(error, 2, RP_LEVEL_ERROR);
RP_SPDLOG_EVENT_(warning, 3, RP_LEVEL_WARNING);
RP_SPDLOG_EVENT_(informational, 4, RP_LEVEL_INFORMATIONAL);
RP_SPDLOG_EVENT_(verbose, 5, RP_LEVEL_VERBOSE);
#undef RP_SPDLOG_EVENT_

namespace ringpipe {

class spdlog_sink final : public spdlog::sinks::sink {
public:
	/* The event has at most this many bytes of the text; a longer text is cut there. */
	static constexpr std::size_t text_max = RP_LOG_TEXT_MAX;

	void log(const spdlog::details::log_msg &line) override
	{
		switch (line.level) {
		case spdlog::level::critical:
			write(ringpipe_spdlog_critical_enabled(), line, [](auto... fields) {
				(void)ringpipe_spdlog_critical(fields...);
			});
			break;
		case spdlog::level::err:
			write(ringpipe_spdlog_error_enabled(), line, [](auto... fields) {
				(void)ringpipe_spdlog_error(fields...);
			});
			break;
		case spdlog::level::warn:
			write(ringpipe_spdlog_warning_enabled(), line, [](auto... fields) {
				(void)ringpipe_spdlog_warning(fields...);
			});
			break;
		case spdlog::level::info:
			write(ringpipe_spdlog_informational_enabled(), line, [](auto... fields) {
				(void)ringpipe_spdlog_informational(fields...);
			});
			break;
		default:
			write(ringpipe_spdlog_verbose_enabled(), line, [](auto... fields) {
				(void)ringpipe_spdlog_verbose(fields...);
			});
		}
	}

	/* Events are in the ring when log() returns. They have the text without a pattern. */
	void flush() override {}
	void set_pattern(const std::string &) override {}
	void set_formatter(std::unique_ptr<spdlog::formatter>) override {}

private:
	template <typename Write>
	static void write(bool is_enabled, const spdlog::details::log_msg &line, Write event)
	{
		if (is_enabled)
			event(cut({ line.payload.data(), line.payload.size() }),
			      std::string_view(line.logger_name.data(), line.logger_name.size()),
			      line.source.filename ? line.source.filename : "",
			      static_cast<std::uint32_t>(line.source.line));
	}

	/* Cut the text before a character of UTF-8, whose further bytes are 10xxxxxx. */
	static std::string_view cut(std::string_view text) noexcept
	{
		std::size_t size = text_max;

		if (text.size() <= text_max)
			return text;
		/* A character has at most three further bytes, and other strings are not UTF-8. */
		while (size > text_max - 3 &&
		       (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80)
			size--;
		return text.substr(0, size);
	}
};

} /* namespace ringpipe */

#endif
