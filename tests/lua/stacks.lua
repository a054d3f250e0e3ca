-- SPDX-License-Identifier: MIT
-- Writes an event in functions whose callers the test knows.
local rp = require "ringpipe"
local event = rp.source("Lua-Stacks"):event { name = "Here", fields = { { "place", "string" } } }

local function innermost(place)
	event(place)			-- line 7
	return place
end
local function outer(place)
	local result = innermost(place)	-- line 11
	return result
end
outer("functions")			-- line 14

table.sort({ 2, 1 }, function(a, b)
	innermost("sort")		-- line 17
	return a < b
end)

local yielding = coroutine.wrap(function()
	outer("coroutine")		-- line 22
	coroutine.yield()
	outer("resumed")		-- line 24
end)
yielding()				-- line 26
local resumer = coroutine.create(function()
	yielding()			-- line 28
end)
assert(coroutine.resume(resumer))	-- line 30
outer("after")				-- line 31

-- An error leaves a coroutine, and a stack of its functions.
local failing = coroutine.create(function() error("failed") end)
assert(not coroutine.resume(failing))
outer("error")				-- line 36

local function deep(level)
	if level > 0 then return 1 + deep(level - 1) end
	innermost("deep")
	return 0
end
deep(150000)				-- line 43

local object = setmetatable({}, { __index = function(_, key)
	innermost(key)			-- line 46
end })
local _ = object.metamethod		-- line 48

-- Each function may get the memory of the one before it.
for number = 1, 20 do
	local name = "made" .. number
	load(("\n"):rep(number - 1) .. "local event = ... event('" .. name .. "')", "=" .. name)(event)
	collectgarbage()
end


-- A call by C has no name, and a later call of the same function has one.
local list = { function(place)
	event(place)			-- line 60
	return place
end }
pcall(list[1], "nameless")
local named = list[1]
local _ = named("named")
