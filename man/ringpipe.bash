# SPDX-License-Identifier: MIT
# Completion of ringpipe(1) for bash.

_ringpipe()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=
	local command=${COMP_WORDS[1]-}
	COMPREPLY=()

	case "$prev" in
	-p | --process-id)
		words=$(ringpipe ps 2>/dev/null | sed -n 's/^ *\([0-9][0-9]*\) .*/\1/p')
		COMPREPLY=($(compgen -W "$words" -- "$cur"))
		return
		;;
	-n | --name)
		words=$(ringpipe ps --json 2>/dev/null | sed -n 's/^ *"name": *"\(.*\)",$/\1/p')
		COMPREPLY=($(compgen -W "$words" -- "$cur"))
		return
		;;
	-o | --output)
		COMPREPLY=($(compgen -f -- "$cur"))
		return
		;;
	--kernel)
		COMPREPLY=($(compgen -W "all sched faults block syscalls" -- "$cur"))
		return
		;;
	--type)
		COMPREPLY=($(compgen -W "mini heap full" -- "$cur"))
		return
		;;
	--providers | -d | --duration | --buffer | --block | --top | --counters | \
		--refresh | --port | --event | --field | --step)
		return
		;;
	esac

	if [[ $COMP_CWORD -eq 1 ]]; then
		words="ps collect record snapshot report counters dump stacks bpf list recover
			--help --version"
		COMPREPLY=($(compgen -W "$words" -- "$cur"))
		return
	fi
	case "$command" in
	ps) words="--json --help" ;;
	collect)
		words="--process-id --name --tree --output --force --providers --duration --buffer
			--block --coarse --stacks --kernel --quiet --json --help"
		;;
	record)
		words="--process-id --name --output --providers --buffer --coarse --stacks --recover
			--roll --stop --help"
		;;
	snapshot)
		words="--process-id --name --output --force --quiet --json --help"
		;;
	report)
		words="--events --top --json --help"
		[[ $cur != -* ]] && COMPREPLY=($(compgen -f -X '!*.nettrace' -- "$cur"))
		;;
	counters)
		words="monitor collect serve --process-id --name --counters --refresh --duration
			--output --force --json --port --help"
		;;
	dump)
		words="--process-id --name --output --force --type --quiet --json --help"
		[[ $cur != -* ]] && words+=" $(ringpipe ps 2>/dev/null |
			sed -n 's/^ *\([0-9][0-9]*\) .*/\1/p')"
		;;
	bpf)
		words="count histogram print --process-id --name --event --field --step --providers
			--duration --buffer --refresh --top --json --help"
		;;
	stacks)
		words="--process-id --name --duration --json --help"
		[[ $cur != -* ]] && words+=" $(ringpipe ps 2>/dev/null |
			sed -n 's/^ *\([0-9][0-9]*\) .*/\1/p')"
		;;
	recover)
		words="--output --force --list --prune --help"
		[[ $cur != -* ]] && COMPREPLY=($(compgen -d -- "$cur"))
		;;
	list)
		words="--process-id --name --json --help"
		[[ $cur != -* ]] && words+=" $(ringpipe ps 2>/dev/null |
			sed -n 's/^ *\([0-9][0-9]*\) .*/\1/p')"
		;;
	esac
	COMPREPLY+=($(compgen -W "$words" -- "$cur"))
}

complete -F _ringpipe ringpipe
