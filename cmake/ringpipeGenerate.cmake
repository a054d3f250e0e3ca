# SPDX-License-Identifier: MIT
# ringpipe_generate(TARGET [LTTNG|COMPONENT|HOST] MANIFEST…): generate code from ETW manifests with
# `ringpipe gen`, and add it to the target, which can then include the headers. With LTTNG, the
# events also fire tracepoints of LTTng-UST. With COMPONENT, the target is a component, which does
# not link ringpipe. With HOST, it is the host of such components.
function(ringpipe_generate target)
	if(NOT RINGPIPE_COMMAND)
		find_program(RINGPIPE_COMMAND ringpipe REQUIRED)
	endif()
	cmake_parse_arguments(PARSE_ARGV 1 with "LTTNG;COMPONENT;HOST" "" "")
	foreach(manifest IN LISTS with_UNPARSED_ARGUMENTS)
		get_filename_component(path "${manifest}" ABSOLUTE)
		get_filename_component(name "${manifest}" NAME_WLE)
		set(folder "${CMAKE_CURRENT_BINARY_DIR}/${target}-events")
		set(files "${folder}/${name}.c" "${folder}/${name}.h")
		set(form c)
		if(with_LTTNG)
			list(APPEND files "${folder}/${name}_lttng.c" "${folder}/${name}_lttng.h")
			set(form lttng)
			string(TOUPPER "${name}" macro)
			string(REGEX REPLACE "[^A-Z0-9]" "_" macro "${macro}")
			target_compile_definitions(${target} PRIVATE "${macro}_LTTNG")
			target_link_libraries(${target} PRIVATE lttng-ust ${CMAKE_DL_LIBS})
		elseif(with_COMPONENT)
			set(files "${folder}/${name}_component.c" "${folder}/${name}_component.h")
			set(form component)
		elseif(with_HOST)
			list(APPEND files "${folder}/${name}_component_host.c"
				"${folder}/${name}_component_host.h")
			set(form component)
		endif()
		add_custom_command(OUTPUT ${files}
			COMMAND "${RINGPIPE_COMMAND}" gen "${path}" -o "${folder}" --to ${form}
				--quiet
			DEPENDS "${path}" VERBATIM)
		target_sources(${target} PRIVATE ${files})
		target_include_directories(${target} PRIVATE "${folder}")
	endforeach()
endfunction()
