/* SPDX-License-Identifier: MIT */
/* The page, which the build makes from src/tools/view/page/. */
#ifndef RP_TOOL_VIEW_PAGE_H
#define RP_TOOL_VIEW_PAGE_H

#include <stddef.h>

extern const unsigned char rp_view_page[];
extern const size_t rp_view_page_bytes;

#endif
