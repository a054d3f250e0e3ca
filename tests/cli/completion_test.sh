#!/bin/bash
# SPDX-License-Identifier: MIT
# The shells complete ringpipe's commands, options and values, and nothing else.
#
# usage: completion_test.sh SOURCE TOOL HOST, where HOST runs until its input ends
set -uo pipefail

source=$(realpath "$1") tool=$(realpath "$2") host=$(realpath "$3")
work=$(mktemp -d)
mkdir "$work/bin" "$work/here" "$work/here/left" "$work/here/on.d"
ln -s "$tool" "$work/bin/ringpipe"
export PATH=$work/bin:$PATH TMPDIR=$work HOME=$work
cd "$work/here" || exit 1
touch one.nettrace oner.nettrace.zst only.data only.txt two.txt

coproc HOST { exec "$host"; }
host_pid=$HOST_PID
trap 'kill "$host_pid" 2>/dev/null; rm -rf "$work"' EXIT
read -r _ <&"${HOST[0]}"

number=0
failed=0

report()
{
	local what=$1 wanted=$2 got=$3
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

# bash refuses it outside of a completion.
compopt() { echo "$*" >"$work/compopt"; }

# Each prints the shell's candidates for the last of the words after `ringpipe`.
bash_offers()
{
	COMP_WORDS=(ringpipe "$@")
	COMP_CWORD=$#
	_ringpipe
	echo "${COMPREPLY[*]-}"
}

# zsh's own functions need a terminal: here they print their arguments.
zsh_offers()
{
	zsh -f -c '
		compadd() { [[ $1 == -a ]] && print -r -- "${(@P)2}" }
		_files() {
			case "$*" in
			"") print -r -- ${~words[CURRENT]}*(N) ;;
			-/) print -r -- ${~words[CURRENT]}*(N/) ;;
			"-g "*) print -r -- ${~words[CURRENT]}*(N/) ${~words[CURRENT]}${~2}(N) ;;
			esac
		}
		words=(ringpipe "$@")
		CURRENT=$#words
		source "$COMPLETION"
	' zsh "$@" | xargs echo
}

fish_offers()
{
	fish --no-config -c 'source $COMPLETION; complete --do-complete="ringpipe $argv[1]"' "$*" |
		cut -f 1 | xargs echo
}

# offers WHAT WANTED WORD…: checks every installed shell.
offers()
{
	local what=$1 wanted=$2
	shift 2
	report "$what: bash" "$wanted" "$(bash_offers "$@")"
	if command -v zsh >/dev/null; then
		report "$what: zsh" "$wanted" \
			"$(COMPLETION=$source/man/ringpipe.zsh zsh_offers "$@")"
	fi
	if command -v fish >/dev/null; then
		report "$what: fish" "$(sorted "$wanted")" \
			"$(sorted "$(COMPLETION=$source/man/ringpipe.fish fish_offers "$@")")"
	fi
}

# includes WHAT WANTED WORD…: bash's candidates include WANTED; other processes may start and end.
includes()
{
	local what=$1 wanted=$2 got
	shift 2
	got=$(bash_offers "$@" | tr ' ' '\n' | grep -F -x -m 1 -- "$wanted")
	report "$what: bash" "$wanted" "$got"
}

# fish sorts its candidates, and marks folders.
sorted()
{
	tr ' ' '\n' <<<"${1//\//}" | sort | xargs echo
}

# shellcheck disable=SC1091
source "$source/man/ringpipe.bash"
name=$(basename "$host")
commands="ps list counters top stacks dump collect record inbox tail report explain view convert"
traces="on.d one.nettrace oner.nettrace.zst only.data"
commands+=" merge symbolize flight bpf recover gen doctor help"

echo "TAP version 13"
offers "commands come first" "$commands --help --version" ""
offers "a command is completed" "collect" col
offers "help takes a command" "report" help rep
includes "help has help, too" "--help" help --
offers "flight has its commands" "start snapshot stop" flight ""
offers "help knows them" "start stop" help flight st
offers "an option of a command of two words" "--buffer" flight start --bu
offers "collect has its options" "--process-id --providers" collect --p
offers "report has its own" "--all" report --a
offers "convert knows the formats" "speedscope" convert --to spe
offers "a value may be a version" "4 6" convert --format ""
offers "a value may have a hyphen" "otlp otlp-profiles" convert --to ot
offers "report knows its kinds" "events" report one.nettrace ev
offers "report takes traces" "$traces" report on
offers "convert takes traces" "$traces" convert on
offers "merge takes traces" "$traces" merge on
offers "recover takes a directory" "left" recover le
offers "an output is any file" "two.txt" collect -o tw
offers "counters has its commands" "collect" counters col
offers "a command takes a session" "--session" flight snapshot --se
offers "bpf has its commands" "histogram" bpf h
offers "dump has kinds of cores" "mini heap full" dump --type ""
offers "the kernel's events have groups" "sched syscalls" collect --kernel s
offers "those of the machine have more groups" "futex faults" record --kernel f
offers "interrupts are a group of the machine" "irq" record --kernel i
includes "a process id is one that ps shows" "$host_pid" collect -p ""
includes "a process id is completed" "$host_pid" collect --process-id "${host_pid:0:2}"
includes "a command takes a process id" "$host_pid" stacks ""
includes "a name is one that ps shows" "$name" collect -n "${name:0:2}"
rm -f "$work/compopt"
bash_offers report --a >/dev/null
report "an option is no name of a file: bash" "" "$(cat "$work/compopt" 2>/dev/null)"
bash_offers report on >/dev/null
report "names of files are escaped: bash" "-o filenames" "$(cat "$work/compopt")"
report "a number is not guessed: bash" "" "$(bash_offers collect --buffer "")"
report "an unknown command gets nothing: bash" "" "$(bash_offers xyz "")"
echo "1..$number"
exit "$failed"
