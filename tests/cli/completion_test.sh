#!/bin/bash
# SPDX-License-Identifier: MIT
# Completion offers what fits, and nothing else. The command itself is a stand-in.
#
# usage: completion_test.sh SOURCE
set -uo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
touch one.nettrace two.txt
mkdir left
# shellcheck disable=SC1091
source "$1/man/ringpipe.bash"

ringpipe()
{
	if [[ ${2-} == --json ]]; then
		printf '%s\n' '    "pid": 42,' '    "name": "shop",' '    "name": "other",'
		return
	fi
	printf '%s\n' '    PID NAME RUNTIME' '     42 shop ringpipe' '   4711 other .NET'
}

number=0
failed=0

# offers WHAT WANTED WORD…: completes the last word.
offers()
{
	local what=$1 wanted=$2 got
	shift 2
	COMP_WORDS=("$@")
	COMP_CWORD=$(($# - 1))
	_ringpipe
	got=${COMPREPLY[*]-}
	number=$((number + 1))
	if [[ $got == "$wanted" ]]; then
		echo "ok $number - $what"
	else
		echo "not ok $number - $what"
		echo "# wanted: $wanted"
		echo "# got:    $got"
		failed=1
	fi
}

echo "TAP version 13"
offers "commands come first" \
	"ps collect record snapshot report counters dump stacks bpf list recover --help --version" \
	ringpipe ""
offers "a command is completed" "collect" ringpipe col
offers "an unknown command gets nothing" "" ringpipe xyz ""
offers "collect has its options" "--process-id --providers" ringpipe collect --p
offers "record can stop" "--stop" ringpipe record --sto
offers "snapshot has an output" "--output" ringpipe snapshot --o
offers "report has its own" "--events" ringpipe report --e
offers "report takes traces" "one.nettrace" ringpipe report on
offers "report takes nothing but traces" "" ringpipe report tw
offers "a process id is one of those that ps shows" "42 4711" ringpipe collect -p ""
offers "a process id is completed" "4711" ringpipe collect --process-id 47
offers "a name is one of those that ps shows" "shop other" ringpipe collect -n ""
offers "list takes a name" "--name" ringpipe list --n
offers "list takes a process id" "42" ringpipe list 42
offers "stacks takes a process id" "42" ringpipe stacks 42
offers "dump takes a process id" "42" ringpipe dump 42
offers "dump has kinds of cores" "mini heap full" ringpipe dump --type ""
offers "recover takes a directory" "left" ringpipe recover le
offers "an output is any file" "two.txt" ringpipe collect -o tw
offers "a number is not guessed" "" ringpipe collect --buffer ""
echo "1..$number"
exit "$failed"
