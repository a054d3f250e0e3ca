-- SPDX-License-Identifier: MIT
-- Writes events of each type. Prints what each call returned.
local rp = require "ringpipe"
-- Counts the cycles of the collector in its own way.
local cycles = 0
local function watch()
	setmetatable({}, { __gc = function() cycles = cycles + 1; watch() end })
end
watch()
local source = rp.source("Lua-Test")
local typed = source:event {
	name = "Typed", id = 7, version = 2, level = "warning", keywords = 5, message = "{0}",
	fields = {
		{ "flag", "bool" }, { "i8", "i8" }, { "u16", "u16" }, { "i32", "i32" },
		{ "i64", "i64" }, { "u64", "u64" }, { "f32", "f32" }, { "f64", "f64" },
		{ "text", "string" }, { "bytes", "bytes" }, { "list", "i32[]" },
		{ "card", "string", secret = true },
	},
}
local function show(...)
	local words = table.pack(...)
	for i = 1, words.n do words[i] = tostring(words[i]) end
	print(table.concat(words, " "))
end

show("enabled", typed:enabled())
show("first", typed(true, -128, 65535, -2 ^ 31, math.mininteger, -1, 0.5, 1e300, "grüße\0hidden",
	"a\0b", { 1, -2, 3 }, "4711"))
show("range", typed(true, 128, 0, 0, 0, 0, 0, 0, "", "", {}, ""))
show("digits", typed(true, "1", 0, 0, 0, 0, 0, 0, "", "", {}, ""))
show("fraction", typed(true, 1.5, 0, 0, 0, 0, 0, 0, "", "", {}, ""))
show("element", typed(true, 1, 0, 0, 0, 0, 0, 0, "", "", { {} }, ""))
show("none", typed())
show("long", typed(true, 1, 0, 0, 0, 0, 0, 0, ("x"):rep(70000), "", {}, ""))
show("last", typed:write(false, 1.0, 0, 0, 0, 0, 0, 0, "", "", {}, "", "ignored"))

local span = source:span { name = "Work", fields = { { "number", "i32" } } }
local inside = source:event { name = "Inside" }
do
	local outer <close> = span(1)
	local inner = span:begin(2)
	inside()
	inner:finish()
	inner:finish()
end
show("error", pcall(function()
	local work <close> = span(3)
	error("left by an error", 0)
end))
inside()

-- Each coroutine has its own activity while others run.
local served = source:event { name = "Served", fields = { { "request", "i32" } } }
local request = source:span { name = "Request", fields = { { "request", "i32" } } }
local routines = {}
for i = 1, 3 do
	routines[i] = coroutine.wrap(function()
		local work <close> = request(i)
		for _ = 1, 2 do
			coroutine.yield()
			served(i)
		end
	end)
end
for _ = 1, 3 do
	for i = 1, 3 do routines[i]() end
	served(0)
end

-- Each way to close a coroutine leaves the activity of its caller.
local closed = source:event { name = "Closed", fields = { { "request", "i32" } } }
local function wait(i)
	return function()
		local work <close> = request(i)
		local _ <close> = setmetatable({}, { __close = function() closed(i) end })
		coroutine.yield()
		error("failed")
	end
end
local waiting, failing, failed = coroutine.create(wait(4)), coroutine.wrap(wait(5)),
	coroutine.create(wait(6))
local hooked = coroutine.create(wait(8))
coroutine.resume(waiting)
coroutine.resume(hooked)
failing()
coroutine.resume(failed)
do
	local work <close> = request(7)
	coroutine.close(waiting)
	served(7)
	pcall(failing)
	served(7)
	coroutine.resume(failed)
	coroutine.close(failed)
	served(7)
	-- The third call is of Lua's own function.
	local calls = 0
	debug.sethook(function()
		calls = calls + 1
		if calls == 3 then
			debug.sethook()
			error("hook")
		end
	end, "c")
	pcall(coroutine.close, hooked)
	served(7)
	coroutine.close(hooked)
	served(7)
end

for _ = 1, 3 do collectgarbage() end
collectgarbage("generational")
for _ = 1, 3 do collectgarbage("step") end
collectgarbage("incremental")
collectgarbage("stop")
show("cycles", cycles)
local hits = source:counter { name = "hits", unit = "hits" }
show("add", hits:add(), hits:add(4, { path = "/" }), hits:read().value)
show("shrink", hits:add(-1))
show("text", hits:add("1"))
show("tag-nul", hits:add(1, { ["a\0b"] = "c" }))
show("tag-value-nul", hits:add(1, { a = "b\0c" }))
