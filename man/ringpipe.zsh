#compdef ringpipe
# SPDX-License-Identifier: MIT
# Completion of ringpipe(1) for zsh.

_ringpipe()
{
	local -a candidates
	candidates=("${(@f)$(ringpipe complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
	case "$candidates[1]" in
	:file) _files ;;
	:trace) _files -g '*.(nettrace|nettrace.zst|data)' ;;
	:directory) _files -/ ;;
	*) compadd -a candidates ;;
	esac
}

_ringpipe "$@"
