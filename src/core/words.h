/* SPDX-License-Identifier: MIT */
/* What the sections for words in registers, words_x86_64.c and turns_x86_64.c, refer to. */
#ifndef RP_CORE_WORDS_H
#define RP_CORE_WORDS_H

#include "base/thread.h"
#include "core/activity.h"
#include "core/core.h"
#include "core/own.h"
#include "core/probe.h"
#include "ring/rseq.h"
#include "ring/section.h"
#include "ring/slot.h"

_Static_assert(RP_RECORD_HEAD == 24, "as the places of words, 24 to 48, and the length have it");

#endif
