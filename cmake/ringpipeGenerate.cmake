# SPDX-License-Identifier: MIT
# ringpipe_generate(TARGET MANIFEST…): generate code from ETW manifests with `ringpipe gen`, and add
# it to the target, which can then include the headers.
function(ringpipe_generate target)
	if(NOT RINGPIPE_COMMAND)
		find_program(RINGPIPE_COMMAND ringpipe REQUIRED)
	endif()
	foreach(manifest IN LISTS ARGN)
		get_filename_component(path "${manifest}" ABSOLUTE)
		get_filename_component(name "${manifest}" NAME_WLE)
		set(folder "${CMAKE_CURRENT_BINARY_DIR}/${target}-events")
		add_custom_command(OUTPUT "${folder}/${name}.c" "${folder}/${name}.h"
			COMMAND "${RINGPIPE_COMMAND}" gen "${path}" -o "${folder}" --quiet
			DEPENDS "${path}" VERBATIM)
		target_sources(${target} PRIVATE "${folder}/${name}.c" "${folder}/${name}.h")
		target_include_directories(${target} PRIVATE "${folder}")
	endforeach()
endfunction()
