-- SPDX-License-Identifier: MIT
-- Computes after a coroutine has ended: "returned", or "failed", which closes a variable of it.
require "ringpipe"
local function busy(n)
	local x = 0
	for i = 1, n do x = x + i * 2 end
	return x
end
local routine = coroutine.wrap(function()
	local _ <close> = setmetatable({}, { __close = function() end })
	if arg[1] == "failed" then error("failed") end
end)
assert(pcall(routine) == (arg[1] == "returned"))
repeat busy(300000) until os.clock() > 0.5	-- of processor time
