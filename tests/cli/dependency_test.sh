#!/bin/bash
# SPDX-License-Identifier: MIT
# ringpipe as a subproject of another meson project: dependency('ringpipe') is the library, shared
# or static, and nothing but the library, its command and pages comes along. The commands of README
# that install only the library and the command build nothing else either.
#
# usage: dependency_test.sh SOURCE MESON CC CXX SANITIZERS
set -uo pipefail

source=$1 meson=$2 cc=$3 cxx=$4 sanitizers=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=tests/cli/tap.sh
. "$source/tests/cli/tap.sh"

# block LANGUAGE: prints README's first block of it.
block()
{
	sed -n '/^```'"$1"'$/,/^```$/{/^```/!p}' "$source/README.md"
}

# Makes a project from README's program and its line for meson. clang leaves a sanitizer's functions
# undefined.
make_project()
{
	local complete="'-Wl,-z,defs', "
	[[ $sanitizers == none ]] || complete=
	mkdir -p "$work/host/subprojects" &&
		ln -s "$source" "$work/host/subprojects/ringpipe" &&
		block c >"$work/host/shop.c" && [[ -s $work/host/shop.c ]] &&
		cat >"$work/host/meson.build" <<-END
		project('host', 'c')
		$(block meson)
		static = dependency('ringpipe', static: true)
		executable('with-shared', 'shop.c', dependencies: ringpipe)
		executable('with-static', 'shop.c', dependencies: static)
		shared_module('plugin', 'shop.c', dependencies: static,
			link_args: [$complete'-Wl,--exclude-libs,ALL'])
		END
}

# Without optimization and debug information, to save time; with all features.
set_up()
{
	CC=$cc CXX=$cxx "$meson" setup "$work/build" "$work/host" --buildtype=plain \
		--force-fallback-for=ringpipe -Dauto_features=enabled -Db_lundef=false \
		-Db_sanitize="$sanitizers"
}

# Runs the line of README, in the folder `release` and with this build's compilers.
set_up_as_readme_says()
{
	local line
	line=$(block sh | grep '^meson setup build/release ') || return
	read -ra line <<<"${line/#meson setup build\/release/}"
	CC=$cc CXX=$cxx "$meson" setup "$work/release" "$source" "${line[@]}"
}

# only_the_library_is_built BUILD SOURCE: lists targets by the folder of SOURCE that defines them.
only_the_library_is_built()
{
	"$meson" introspect "$work/$1" --targets >"$work/targets.json" &&
		python3 - "$work/targets.json" "$2/" <<-'END'
		import json, sys
		inside = [target["defined_in"].partition(sys.argv[2])[2]
		          for target in json.load(open(sys.argv[1]))]
		folders = {path.partition("/")[0] for path in inside} - {""}
		print(folders)
		sys.exit(not ("src" in folders and folders <= {"src", "bpf", "cmake", "man"}))
		END
}

there_is_no_test()
{
	"$meson" introspect "$work/$1" --tests >"$work/tests.json" && cat "$work/tests.json" &&
		[[ $(cat "$work/tests.json") == '[]' ]]
}

build_programs()
{
	"$meson" compile -C "$work/build" with-shared with-static plugin
}

# The example places 1000 orders.
trace_example()
{
	RINGPIPE_CONFIG=Shop-Orders RINGPIPE_OUTPUT=$work/$1.nettrace RINGPIPE_DIAGNOSTICS=0 \
		"$work/build/$1" && [[ $(wc -c <"$work/$1.nettrace") -gt 20000 ]]
}

uses_shared_library()
{
	readelf -d "$work/build/$1" | grep -F '[libringpipe.so.1]'
}

echo "TAP version 13"
check "a project with ringpipe as a subproject" make_project
check "meson configures it" set_up
check "tests, benchmarks and examples are left out" \
	only_the_library_is_built build /subprojects/ringpipe
check "no test comes along" there_is_no_test build
check "programs and a plugin link with -z defs" build_programs
check "the shared library is used where it was asked for" uses_shared_library with-shared
check "the static library is used where it was asked for" \
	eval '! uses_shared_library with-static && ! uses_shared_library libplugin.so'
check "the program with the shared library is traced" trace_example with-shared
check "the program with the static library is traced" trace_example with-static
check "meson configures what README's commands install" set_up_as_readme_says
check "README's commands build no test, benchmark or example" \
	only_the_library_is_built release "$source"
check "README's commands build nothing for tests to run" there_is_no_test release
finish
