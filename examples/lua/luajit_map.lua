-- SPDX-License-Identifier: MIT
-- Names the machine code of LuaJIT for `ringpipe record` and perf. LuaJIT compiles paths through
-- hot code, its traces. This module writes a line into /tmp/perf-PID.map for each new trace, and
-- replaces the file of an earlier process with the same id:
--
--	luajit -e 'package.path = "examples/lua/?.lua;" .. package.path' -l luajit_map PROGRAM.lua
--
-- A trace has the name of the function in which it begins, with its file and line.
local ffi = require "ffi"
local util = require "jit.util"

ffi.cdef "int getpid(void);"
local map = assert(io.open(("/tmp/perf-%d.map"):format(ffi.C.getpid()), "w"))
map:setvbuf("line")

local begun = {}	-- the place where a trace begins, by the number of the trace

local function on_trace(what, trace, func, pc)
	if what == "start" then
		local info = util.funcinfo(func, pc)
		begun[trace] = info.loc or ("C function 0x%x"):format(info.addr or 0)
	elseif what == "stop" then
		local code, address = util.tracemc(trace)
		map:write(("%x %x trace %d %s\n"):format(address, #code, trace, begun[trace]))
	end
end

jit.attach(on_trace, "trace")
return { file = map }
