# SPDX-License-Identifier: MIT
# Completion of ringpipe(1) for fish.

function __ringpipe_complete
	set -l words (commandline -opc) (commandline -ct)
	set -l candidates (ringpipe complete $words[2..-1] 2>/dev/null)
	switch "$candidates[1]"
		case :file
			__fish_complete_path (commandline -ct)
		case :trace
			__fish_complete_path (commandline -ct) |
				string match -r '^.*(?:/|\.nettrace|\.nettrace\.zst|\.data)(?:\t.*)?$'
		case :directory
			__fish_complete_directories (commandline -ct)
		case '*'
			printf '%s\n' $candidates
	end
end

complete -c ringpipe -f -a '(__ringpipe_complete)'
