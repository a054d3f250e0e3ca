-- SPDX-License-Identifier: MIT
-- Prints what listeners get, and when.
local rp = require "ringpipe"
local source = rp.source("Lua-Listened")
local number = source:event { name = "Number", level = "informational", keywords = 2,
	fields = { { "value", "i64" }, { "text", "string" }, { "bytes", "bytes" },
		{ "list", "f64[]" } } }
local main = coroutine.running()
local calls = 0
local listener = rp.listen({ { name = "Lua-Listened", level = "informational", keywords = 2 } },
	function(event)
		calls = calls + 1
		if event.fields.value == 2 then error("error in a listener", 0) end
		if event.fields.value == 3 then print("nested", rp.poll()) end
		print(event.provider, event.name, event.id > 32767, event.level, event.keywords,
			event.fields.value, event.fields.text, #event.fields.bytes,
			table.concat(event.fields.list, ","), coroutine.running() == main)
	end)
for i = 1, 4 do number(i, "text " .. i, "\0\1", { i, i / 2 }) end
for _ = 1, 1000000 do end
print("before", calls)
print("poll", listener:poll(10))
while calls < 4 do print("poll", listener:poll(10)) end
print("lost", listener:lost())
print("not-a-number", listener:poll(0 / 0))
listener:stop()
listener:stop()
number(5, "", "", {})
print("stopped", listener:poll(), number:enabled())

-- A listener that ends itself, and one that its function calls again without end.
local own
own = rp.listen({ "Lua-Listened" }, function() own:stop() end)
number(6, "", "", {})
print("own", own:poll(10), number:enabled())

-- A listener that gets what its function writes. So large events wake the drain thread.
local echoes, large = 0, ("x"):rep(60000)
local echo = rp.listen({ "Lua-Listened" }, function()
	echoes = echoes + 1
	if echoes > 20 then return end
	for _ = 1, 4 do number(8, "", large, {}) end
	for _ = 1, 1000000 do end
end)
number(8, "", "", {})
print("echo", echo:poll(10) <= 2)
echo:stop()
local deep = rp.listen({ "Lua-Listened" }, function()
	local function fall() return 1 + fall() end
	fall()
end)
number(7, "", "", {})
local count, message = deep:poll(10)
print("deep", count, message:match("stack overflow"))
