// SPDX-License-Identifier: MIT
// Configures spdlog for minimal delay of the caller: asynchronous, with one thread that writes.
#include "peers.h"

#include <memory>
#include <unistd.h>

#include <spdlog/async.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>

static std::shared_ptr<spdlog::async_logger> logger;

void spdlog_open(const char *path)
{
	spdlog::init_thread_pool(1 << 16, 1);
	auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path, true);
	logger = std::make_shared<spdlog::async_logger>("bench", sink, spdlog::thread_pool(),
							spdlog::async_overflow_policy::block);
}

void spdlog_write(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	logger->info("order {} {} {} {}", a, b, c, d);
}

void spdlog_settle(void)
{
	while (spdlog::thread_pool()->queue_size() > 0)
		usleep(1000);
}

void spdlog_close(void)
{
	logger.reset();
	spdlog::shutdown();
}
