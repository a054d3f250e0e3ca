# SPDX-License-Identifier: MIT
# Completion of ringpipe(1) for bash.

_ringpipe()
{
	local cur=${COMP_WORDS[COMP_CWORD]} type

	mapfile -t COMPREPLY < <(ringpipe complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
	# The shell escapes blanks in names of files, and ends those of directories with a slash.
	[[ ${COMPREPLY[0]-} != :* ]] || compopt -o filenames 2>/dev/null
	case "${COMPREPLY[0]-}" in
	:file) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
	:trace) mapfile -t COMPREPLY < <(
			compgen -d -- "$cur"
			for type in nettrace nettrace.zst data; do
				compgen -f -X "!*.$type" -- "$cur"
			done
		) ;;
	:directory) mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
	esac
}

complete -F _ringpipe ringpipe
