/* SPDX-License-Identifier: MIT */
/* Logs with spdlog through the sink, for log_sinks_test.py. */
#include <memory>
#include <string>

#include <spdlog/spdlog.h>

#include <ringpipe/sinks/spdlog.hpp>

int main()
{
	auto sink = std::make_shared<ringpipe::spdlog_sink>();
	spdlog::logger logger("shop", sink);

	/* A pattern changes nothing. */
	logger.set_pattern("[%l] %v");
	logger.set_level(spdlog::level::trace);
	logger.trace("line {}", 1);
	logger.debug("line {}", 2);
	logger.info("line {}", 3);
	logger.warn("line {}", 4);
	logger.error("line {}", 5);
	logger.critical("line {}", 6);
	SPDLOG_LOGGER_INFO(&logger, "with {}", "a place");
	logger.info("");
	/* "é" has two bytes, of which the limit would cut the second one. */
	logger.info("x" + std::string(4000, 'y').replace(2046, 2, "é"));
	logger.flush();
	sink->set_level(spdlog::level::err);
	logger.info("below the level of the sink");
	return 0;
}
