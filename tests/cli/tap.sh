# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Prints TAP for a test in bash that sources this file. `work` is the test's temporary folder.
number=0
failed=0

# check WHAT COMMAND…: one line of TAP.
check()
{
	local what=$1
	shift
	number=$((number + 1))
	if "$@" >"$work/output" 2>&1; then
		echo "ok $number - $what"
	else
		echo "not ok $number - $what"
		sed 's/^/# /' "$work/output" | tail -n 40
		failed=1
	fi
}

# skip WHAT REASON
skip()
{
	number=$((number + 1))
	echo "ok $number - $1 # SKIP $2"
}

# Prints the plan and exits.
finish()
{
	echo "1..$number"
	exit "$failed"
}
