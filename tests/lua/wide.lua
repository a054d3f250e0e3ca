-- SPDX-License-Identifier: MIT
-- Writes events of many fields in new coroutines, whose stacks are small.
local rp = require "ringpipe"
local source = rp.source("Lua-Wide")
local flags, lists, given = {}, {}, {}
for i = 1, 128 do
	flags[i], lists[i], given[i] = { "f" .. i, "bool" }, { "f" .. i, "bool[]" }, { true }
end
local flat = source:event { name = "Flat", fields = flags }
local deep = source:event { name = "Deep", fields = lists }
local span = source:span { name = "Span", fields = flags }
for _ = 1, 100 do
	coroutine.wrap(function() flat() end)()
	coroutine.wrap(function() deep(table.unpack(given)) end)()
	coroutine.wrap(function() span():finish() end)()
end
