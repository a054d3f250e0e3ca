/* SPDX-License-Identifier: MIT */
#include "component.c"
