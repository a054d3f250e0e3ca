#!/bin/sh
# SPDX-License-Identifier: MIT
# In the machine that boot.py starts: runs the commands of doc/linux-tools.md for the kernel's
# user_events, line by line as it stands. A reader types slowly; here a command that needs the
# result of the one before waits for it.
#
# usage: sh page.sh PAGE SERVER CAT SED SLEEP
set -eu
PATH=/lib
page=$1
cd /lib	# the folder of ./server
trace=/sys/kernel/tracing/trace

sed -n '/^## .*user_events/,/^## /{/^```sh$/,/^```$/{/^```/!p}}' "$page" >/tmp/commands
set --
while read -r command; do
	echo "\$ $command"
	case $command in
	*/enable)
		until test -e "${command##*> }"; do sleep 0.1; done
		;;
	"cat $trace")
		while sed -n '/ Shop_Orders_order_placed: /q1' $trace; do sleep 0.1; done
		set -- shown
		;;
	esac
	eval "$command" >/tmp/shown
done </tmp/commands
sed -n '1,20p' /tmp/shown
test "$*" = shown || { echo "the page does not show the trace any more"; exit 1; }
# The line in the page, up to its dots.
line='^ *server-[0-9]* *\[[0-9]*\] [^ ]* *[0-9.]*: Shop_Orders_order_placed: '
line=$line'order_id=0x[0-9a-f]* ([0-9]*) customer=Ada '
sed -n "/$line/q1" /tmp/shown || exit 0
echo "no order in the trace"
exit 1
