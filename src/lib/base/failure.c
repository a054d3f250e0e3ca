/* SPDX-License-Identifier: MIT */
#include "base/failure.h"

__thread const char *rp_failed_call;
