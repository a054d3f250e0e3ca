-- SPDX-License-Identifier: MIT
-- Allocates in each part of a listener, and waits for nothing.
local rp = require "ringpipe"
local source = rp.source("Lua-Memory")
local event = source:event { name = "Event", fields = { { "text", "string" }, { "list", "i64[]" } } }
local listener = rp.listen({ { name = "Lua-Memory", level = "verbose" } }, function(got)
	local copy = got.fields.text .. got.name
	assert(#copy > 0)
end)
event("text", { 1, 2, 3 })
listener:poll()
local waiting = coroutine.wrap(function() coroutine.yield(rp.poll()) end)
waiting()
listener:stop()
