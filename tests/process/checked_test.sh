#!/bin/bash
# SPDX-License-Identifier: MIT
# tests/checked fails if any process made a fault, even if that process prints nothing and exits
# with 0: a child of a child, or a process of another user.
#
# usage: checked_test.sh CHECKED FAULTY SANITIZERS. SANITIZERS: those that FAULTY was built with.
set -uo pipefail

checked=$1 faulty=$2 sanitizers=$3
mode=sanitizer
number=0
failed=0

case "$sanitizers" in
none) mode=valgrind faults=(leak overflow) ;;
thread) faults=(race) ;;
address) faults=(leak overflow) ;;
undefined) faults=(undefined) ;;
address,undefined) faults=(leak overflow undefined) ;;
*) echo "nothing is known of the sanitizers $sanitizers"; exit 77 ;;
esac
if [[ $mode == valgrind ]] && ! command -v valgrind >/dev/null; then
	echo "no valgrind"
	exit 77
fi

# expect STATUS WHAT COMMAND…: run a command and print one line of TAP.
expect()
{
	local status=$1 what=$2 output got
	shift 2
	number=$((number + 1))
	output=$("$checked" "$mode" "$@" 2>&1)
	got=$?
	if [[ $got -eq $status ]]; then
		echo "ok $number - $what"
	else
		echo "not ok $number - $what"
		echo "# ended with $got, and said:"
		sed 's/^/# /' <<<"$output"
		failed=1
	fi
}

echo "TAP version 13"
expect 0 "no fault is none" "$faulty" none
for fault in "${faults[@]}"; do
	expect 99 "$fault is seen" bash -c '"$0" "$1" >/dev/null 2>&1 & wait; true' \
		"$faulty" "$fault"
done
become=(setpriv --reuid=nobody --regid=nogroup --clear-groups)
if [[ $mode == sanitizer ]] && "${become[@]}" "$faulty" none >/dev/null 2>&1; then
	expect 99 "${faults[0]} of another user is seen" \
		bash -c '"$@" >/dev/null 2>&1; true' - "${become[@]}" "$faulty" "${faults[0]}"
else
	number=$((number + 1))
	echo "ok $number - a fault of another user is seen # SKIP not as root, or valgrind"
fi
echo "1..$number"
exit "$failed"
