-- SPDX-License-Identifier: MIT
-- Stays in one call of a C function for as many steps as the argument lets it need.
local rp = require "ringpipe"
local text = ("a"):rep(tonumber(arg[1]))
local function search()
	return (text:find(("a*"):rep(5) .. "b"))	-- line 6
end
assert(not search())
