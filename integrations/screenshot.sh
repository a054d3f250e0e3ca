# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# For the scripts that make the pictures of the servers.

# Wait until a command succeeds: wait_for PID NAME COMMAND.... The script ends if the process of
# this name ends before.
wait_for()
{
	local pid=$1 name=$2
	shift 2
	until "$@"; do
		if ! kill -0 "$pid" 2>/dev/null; then
			echo "the $name has ended" >&2
			exit 1
		fi
		sleep 0.1
	done
}

# Whether the server has a session of the recording.
has_session()
{
	[[ $("$tool" list --format csv -p "$server") == *session* ]]
}
