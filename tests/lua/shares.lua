-- SPDX-License-Identifier: MIT
-- Runs functions that need different shares of the time. With the argument "truth", prints how many
-- times a hook that Lua calls after each 1000 instructions saw each line; else a session samples.
-- A third argument makes the program wait for a line.
local rp = require "ringpipe"
local counts = {}
local function count()
	local info = debug.getinfo(2, "Sl")
	local key = info.short_src .. ":" .. info.linedefined
	counts[key] = (counts[key] or 0) + 1
end
local is_truth = arg[1] == "truth"
local function watch()
	if is_truth then debug.sethook(count, "", 1000) end
end

-- All have the same instructions in their loops.
local function one(n)
	local x = 0
	for i = 1, n do x = x + i * 2 end
	return x
end
local function three(n)
	local x = 0
	for i = 1, 3 * n do x = x + i * 2 end
	return x
end
local function recursive(n, level)
	if level > 0 then return (recursive(n, level - 1)) end
	local x = 0
	for i = 1, 2 * n do x = x + i * 2 end
	return x
end
local inside = coroutine.wrap(function()
	watch()
	while true do
		local x = 0
		for i = 1, 10000 do x = x + i * 2 end
		coroutine.yield(x)
	end
end)

if arg[3] then io.read() end
watch()
for _ = 1, tonumber(arg[2]) do
	one(10000)
	three(10000)
	recursive(10000, 20)
	inside()
end
debug.sethook()
for place, number in pairs(counts) do print(place, number) end
