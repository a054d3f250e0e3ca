/* SPDX-License-Identifier: MIT */
/* Format the text of RP_LOG. */
#include <stdio.h>
#include <string.h>

#include <ringpipe/log.h>

static const char ellipsis[] = "\u2026";

/* Return the last place up to `bytes` where UTF-8 text can be cut between characters. */
static size_t cut_at(const char *text, size_t bytes)
{
	while (bytes > 0 && ((unsigned char)text[bytes] & 0xc0) == 0x80)
		bytes--;
	return bytes;
}

RP_PUBLIC void rp_log_format(char *text, const char *format, va_list arguments)
{
	int bytes = vsnprintf(text, RP_LOG_TEXT_MAX + 1, format, arguments);

	if (bytes < 0)
		snprintf(text, RP_LOG_TEXT_MAX + 1, "%s", format);
	else if ((unsigned int)bytes > RP_LOG_TEXT_MAX)
		strcpy(text + cut_at(text, RP_LOG_TEXT_MAX + 1 - sizeof(ellipsis)), ellipsis);
}
