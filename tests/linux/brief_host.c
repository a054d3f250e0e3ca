/* SPDX-License-Identifier: MIT */
/*
 * A process that lives for 300 ms. If a session begins in that time, it writes 10 events and ends
 * with status 0, otherwise with 1.
 */
#include <time.h>

#include <ringpipe/ringpipe.h>

#define LIFE_MS 300

RP_PROVIDER(brief, "Test-Brief");
RP_EVENT(brief, written, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U32(serial));

int main(void)
{
	const struct timespec pause = { 0, 1000000 };

	for (int ms = 0; !brief_written_enabled(); ms++) {
		if (ms == LIFE_MS)
			return 1;
		nanosleep(&pause, NULL);
	}
	for (uint32_t serial = 0; serial < 10; serial++)
		brief_written(serial);
	return 0;
}
