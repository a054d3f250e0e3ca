#!/bin/bash
# SPDX-License-Identifier: MIT
# Installs into a folder of its own and uses what is there, by pkg-config alone and by CMake alone,
# as a stranger would: README's example, as C and C++, against the shared library and the static
# one.
#
# usage: install_test.sh SOURCE BUILD MESON CC CXX SANITIZERS [PYTHON]. CC, CXX and SANITIZERS are
# what the library was built with; SANITIZERS may be `none`, and with others there is no program
# without libraries. PYTHON is the interpreter that the module is built for.
set -uo pipefail

source=$1 build=$2 meson=$3 cc=$4 cxx=$5 sanitizers=$6 python=${7-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
# shellcheck source=tests/cli/tap.sh
. "$source/tests/cli/tap.sh"

install_all()
{
	"$meson" install -C "$build" --no-rebuild --destdir "$root"
}

# Each pattern names exactly one file.
installed()
{
	local pattern found
	for pattern in "$@"; do
		found=$(find "$root" -path "*/$pattern" | wc -l)
		[[ $found -eq 1 ]] || { echo "$pattern: $found files"; return 1; }
	done
}

nothing_else_is_installed()
{
	local library='lib.*/libringpipe(-(symbols|lttng)\.so|(-host-test)?\.a)'
	library+='|lib.*/libringpipe(-inbox)?\.so\.[0-9.]+'
	library+='|lib.*/lua/5\.4/ringpipe\.so'
	library+='|lib.*/pkgconfig/ringpipe(-inbox)?\.pc'
	library+='|lib.*/cmake/ringpipe/ringpipe(Config|ConfigVersion|Generate)\.cmake'
	local rest='bin/ringpipe|include/ringpipe/.*\.h(pp)?|man/man[137]/[A-Za-z_-]+\.[137]'
	rest+='|libexec/ringpipe-(dump|bpf|gen|kernel|record|symbolize)'
	local completions='bash-completion/completions/ringpipe|zsh/site-functions/_ringpipe'
	completions+='|fish/vendor_completions.d/ringpipe.fish'
	local module='python3[^/]*/(site|dist)-packages/ringpipe'
	module+='/(__init__\.pyi?|_ringpipe\.abi3\.so|py\.typed)'
	! find "$root" -type f | grep -v -E \
		"/($library|$rest|$completions|$module)\$"
}

# The installed library is not in the path: the module does not need it.
module_is_imported()
{
	local folder
	folder=$(dirname "$(find "$root" -path '*/ringpipe/_ringpipe.abi3.so')")
	env -u LD_LIBRARY_PATH PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="${folder%/*}" \
		"$python" -c 'import ringpipe; print(ringpipe.open)'
}

headers_are_all_there()
{
	(cd "$source/include" && find ringpipe -name '*.h*' | sort) >"$work/wanted"
	(cd "$root$(pkg-config --variable=includedir ringpipe)" && find ringpipe -name '*.h*' |
		sort) >"$work/got"
	diff "$work/wanted" "$work/got"
}

# The first block of C in README.md.
take_example()
{
	sed -n '/^```c$/,/^```$/{/^```/!p}' "$source/README.md" >"$work/example.c"
	cp "$work/example.c" "$work/example.cpp"
	[[ -s $work/example.c ]]
}

# build_example COMPILER SUFFIX PROGRAM [shared|static]
build_example()
{
	local static=() sanitized=() flags
	[[ $4 == static ]] && static=(-static)
	[[ $sanitizers != none ]] && sanitized=("-fsanitize=$sanitizers")
	flags=$(PKG_CONFIG_SYSROOT_DIR=$root pkg-config "${static[@]/#/-}" \
		--cflags --libs ringpipe) ||
		return
	if [[ ${#static[@]} -gt 0 && ${#sanitized[@]} -gt 0 ]]; then
		flags=${flags/-lringpipe/-l:libringpipe.a}
		static=()
	fi
	# shellcheck disable=SC2086
	"$1" -Wall -Wextra -Werror "$work/example.$2" -o "$work/$3" "${sanitized[@]}" \
		"${static[@]}" $flags
}

# A plugin contains the static library, with hidden symbols, and exports none of them.
build_plugin()
{
	local flags
	flags=$(PKG_CONFIG_SYSROOT_DIR=$root pkg-config --static --cflags --libs ringpipe) || return
	# shellcheck disable=SC2086
	"$1" -Wall -Wextra -Werror -shared -fPIC "$work/example.$2" -o "$work/plugin-$2.so" \
		-Wl,-z,defs -Wl,--exclude-libs,ALL ${flags/-lringpipe/-l:libringpipe.a} &&
		! nm -D --defined-only "$work/plugin-$2.so" | grep -w rp_event_write
}

# cmake_configure FOLDER [VERSION]: finds the package only where it was installed.
cmake_configure()
{
	local sanitized=
	[[ $sanitizers == none ]] || sanitized=-fsanitize=$sanitizers
	mkdir -p "$work/cmake" && cp "$work"/example.c* "$work/cmake" &&
		take_plain "$work/cmake" &&
		cat >"$work/cmake/CMakeLists.txt" <<-END
		cmake_minimum_required(VERSION 3.16)
		project(host C CXX)
		add_executable(server example.c)
		$(sed -n '/^```cmake$/,/^```$/{/^```/!p}' "$source/README.md")
		find_package(ringpipe ${2-0.1} CONFIG REQUIRED)
		add_executable(cmake-shared-c example.c)
		target_link_libraries(cmake-shared-c ringpipe::ringpipe)
		add_executable(cmake-shared-cpp example.cpp)
		target_link_libraries(cmake-shared-cpp ringpipe::ringpipe)
		add_executable(cmake-static-c example.c)
		target_link_libraries(cmake-static-c ringpipe::static)
		add_executable(cmake-inbox plain.c)
		target_link_libraries(cmake-inbox -Wl,--as-needed ringpipe::inbox)
		add_library(cmake-plugin MODULE example.c)
		target_link_libraries(cmake-plugin ringpipe::static)
		END
	cmake -S "$work/cmake" -B "$work/$1" -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" \
		-DCMAKE_C_FLAGS="$sanitized" -DCMAKE_CXX_FLAGS="$sanitized" \
		-DCMAKE_PREFIX_PATH="$prefix"
}

cmake_build()
{
	cmake --build "$work/cmake-build" && cp "$work"/cmake-build/cmake-* "$work"
}

# The example places 1000 orders, which the report must show.
trace_example()
{
	local trace=$work/$1.nettrace
	RINGPIPE_CONFIG=Shop-Orders RINGPIPE_OUTPUT=$trace RINGPIPE_DIAGNOSTICS=0 "$work/$1" &&
		ringpipe report --format json "$trace" >"$work/report.json" &&
		python3 - "$work/report.json" <<-'END'
		import json, sys
		report = json.load(open(sys.argv[1]))
		kinds = {(provider["provider"], kind["event"]): kind["events"]
		         for provider in report["providers"] for kind in provider["kinds"]}
		print(kinds, report["lost"])
		sys.exit(kinds.get(("Shop-Orders", "order_placed")) != 1000 or report["lost"] != 0)
		END
}

shared_library_is_used()
{
	ldd "$work/$1" | grep "libringpipe.so.1 => $root"
}

# take_plain FOLDER: a program that knows nothing of ringpipe.
take_plain()
{
	cat >"$1/plain.c" <<-END
	#include <stdlib.h>
	int main(void) { void *volatile block = malloc(100); free(block); return 0; }
	END
}

# has_inbox_events COMMAND…
has_inbox_events()
{
	local trace=$work/inbox.nettrace
	rm -f "$trace"
	RINGPIPE_CONFIG=ringpipe-heap::4:SampleBytes=1 RINGPIPE_OUTPUT=$trace "$@" &&
		ringpipe report "$trace" heap --format csv
}

# Such a program has the in-box providers, linked or preloaded.
inbox_is_used()
{
	local flags
	flags=$(env -u LD_LIBRARY_PATH PKG_CONFIG_SYSROOT_DIR="$root" pkg-config --libs \
		ringpipe-inbox) || return
	take_plain "$work"
	# shellcheck disable=SC2086
	"$cc" -Wl,--as-needed "$work/plain.c" -o "$work/linked" $flags &&
		"$cc" "$work/plain.c" -o "$work/plain" && has_inbox_events "$work/linked" &&
		has_inbox_events ringpipe inbox -- "$work/plain"
}

# The command of examples/hello/README.md builds the example and ends when it has 20 events.
hello_is_recorded()
{
	local command
	command=$(sed -n '/^```sh$/,/^```$/{/^```/!p}' "$source/examples/hello/README.md")
	ln -s "$source/examples" "$work/examples" &&
		(cd "$work" && PKG_CONFIG_SYSROOT_DIR=$root bash -c "$command" >hello.txt) &&
		grep -E '^ *20 .* greeting' "$work/hello.txt"
}

shared_library_is_not_needed()
{
	! readelf -d "$work/$1" | grep -i NEEDED
}

echo "TAP version 13"
check "meson installs" install_all
library=$(dirname "$(find "$root" -name 'libringpipe.so' | head -n 1)")
# Only this folder: a program that uses the library needs no package for building it.
export PKG_CONFIG_LIBDIR=$library/pkgconfig
export LD_LIBRARY_PATH=$library
PATH=$(dirname "$(find "$root" -path '*/bin/ringpipe' | head -n 1)"):$PATH

check "library, command, pages and completion are installed" installed \
	'libringpipe.so' 'libringpipe.so.1' 'libringpipe.a' 'pkgconfig/ringpipe.pc' \
	'bin/ringpipe' 'libexec/ringpipe-dump' 'man1/ringpipe.1' \
	'man3/RP_EVENT.3' 'man3/rp_session_start.3' 'man7/libringpipe.7' \
	'bash-completion/completions/ringpipe' 'zsh/site-functions/_ringpipe' \
	'fish/vendor_completions.d/ringpipe.fish' 'libringpipe-host-test.a' \
	'man7/ringpipe-host-test.7'
check "nothing else is installed" nothing_else_is_installed
if [[ -n $python ]]; then
	check "Python imports the installed module" module_is_imported
else
	skip "Python imports the installed module" "built without it, or with a sanitizer"
fi
check "every public header is installed" headers_are_all_there
check "pkg-config knows the version" pkg-config --exact-version=0.1.0 ringpipe
check "the command runs" ringpipe --version
check "README has an example" take_example
for kind in shared static; do
	check "the example compiles as C ($kind)" build_example "$cc" c "$kind-c" "$kind"
	check "the example compiles as C++ ($kind)" build_example "$cxx" cpp "$kind-cpp" "$kind"
	check "the C example's 1000 events are in its trace ($kind)" trace_example "$kind-c"
	check "the C++ example's 1000 events are in its trace ($kind)" trace_example "$kind-cpp"
done
check "the shared library is the installed one" shared_library_is_used shared-c
if [[ $sanitizers == none ]]; then
	check "the static program needs no library" shared_library_is_not_needed static-c
	check "a program has the in-box providers, linked or preloaded" inbox_is_used
	check "the command of the smallest example records its 20 events" hello_is_recorded
	check "a plugin with the static library links with -z defs (C)" build_plugin "$cc" c
	check "a plugin with the static library links with -z defs (C++)" build_plugin "$cxx" cpp
else
	skip "the static program needs no library" "the runtime of a sanitizer cannot be linked so"
fi
prefix=$(dirname "$(dirname "$(find "$root" -path '*/bin/ringpipe' | head -n 1)")")
if command -v cmake >/dev/null; then
	check "CMake finds the package" cmake_configure cmake-build
	check "programs and a plugin are built by CMake" cmake_build
	check "CMake's program is the installed library's" shared_library_is_used cmake-shared-c
	for program in cmake-shared-c cmake-shared-cpp cmake-static-c; do
		check "1000 events are in the trace of $program" trace_example "$program"
	done
	if [[ $sanitizers == none ]]; then
		check "CMake's program has the in-box providers" \
			has_inbox_events "$work/cmake-inbox"
	fi
	check "the program of CMake's static target does without the shared library" \
		eval '! shared_library_is_used cmake-static-c'
	check "CMake refuses a version that is not there" eval '! cmake_configure newer 0.2'
	check "CMake refuses another major version" eval '! cmake_configure major 1.0'
	mv "$prefix" "$work/moved"
	prefix=$work/moved
	check "the package may be moved, and asked for without a version" \
		cmake_configure moved-build ''
else
	skip "CMake finds the package" "no cmake"
fi
finish
