-- SPDX-License-Identifier: MIT
-- Does what moves, leaves or extends stacks, while a session samples. Prints "done" and the number
-- of calls of the program's own hook.
local rp = require "ringpipe"
local deadline = os.clock() + tonumber(arg[1])

local function deep(level)
	if level == 0 then return 0 end
	return 1 + deep(level - 1)
end
local function fails(level)
	if level == 0 then error({}) end
	fails(level - 1)
	return 1
end
local function endless() return 1 + endless() end
local numbers = {}
for i = 1, 20000 do numbers[i] = (i * 7919) % 20011 end
local text = ("x"):rep(200000)

local rounds = 0
while os.clock() < deadline do
	rounds = rounds + 1
	deep(100000)
	pcall(fails, 1000)
	pcall(endless)
	local routine
	for _ = 1, 100 do
		local inner = routine
		routine = coroutine.wrap(function() return inner and inner() or deep(100) end)
	end
	routine()
	local copy = table.move(numbers, 1, #numbers, 1, {})
	table.sort(copy, function(a, b) return a < b end)
	text:find("y", 1, true)
	text:gsub("xx", "x")
	setmetatable({}, { __gc = function() deep(1000) end })
	-- Lua calls no hook in a finalizer, also while several samples are taken there.
	setmetatable({}, { __gc = function()
		local ends = os.clock() + 0.05
		repeat deep(100) until os.clock() > ends
	end })
	collectgarbage()
	local closed = coroutine.create(function()
		local value <close> = setmetatable({}, { __close = function() deep(100) end })
		coroutine.yield(value)
	end)
	coroutine.resume(closed)
	coroutine.close(closed)
end

local calls = 0
debug.sethook(function() calls = calls + 1 end, "c")
local x = 0
for i = 1, 5000000 do x = x + i end
deep(10)
local _, mask = debug.gethook()
debug.sethook()
print("done", calls >= 11, mask, rounds > 0)
