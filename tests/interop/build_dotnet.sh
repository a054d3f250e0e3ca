#!/bin/bash
# SPDX-License-Identifier: MIT
# usage: build_dotnet.sh DIR [PROJECT [SOURCE]]
# Builds PROJECT, TraceRead by default, of the folder SOURCE, into DIR/PROJECT and prints the path
# of its .dll.
# Exit: 77 when the .NET SDK is missing; 1 when the build fails.
set -euo pipefail

project=${2-TraceRead}
source=${3-$(dirname "$(readlink -f "$0")")/$project}
out=$1/$project
dll=$out/$project.dll

if ! command -v dotnet >/dev/null; then
	echo "build_dotnet: the .NET SDK (dotnet) is not installed" >&2
	exit 77
fi
export DOTNET_CLI_TELEMETRY_OPTOUT=1 DOTNET_NOLOGO=1 DOTNET_SKIP_FIRST_TIME_EXPERIENCE=1

stale()
{
	[[ ! -f $out/.built || $source/Program.cs -nt $out/.built ||
	   $source/$project.csproj -nt $out/.built ]]
}

if stale; then
	mkdir -p "$out"
	# Two tests may run this script simultaneously.
	exec 9>"$out/.lock"
	flock 9
fi
if stale; then
	# --disable-build-servers: otherwise a server would stay and hold the lock.
	dotnet build "$source/$project.csproj" --configuration Release --output "$out" \
		--disable-build-servers "-p:BaseIntermediateOutputPath=$out/obj/" \
		-p:UseSharedCompilation=false -nodeReuse:false \
		</dev/null >"$out/build.log" 2>&1 9>&- || {
		tail -n 30 "$out/build.log" >&2
		echo "build_dotnet: $project could not be built" >&2
		exit 1
	}
	touch "$out/.built"
fi
echo "$dll"
