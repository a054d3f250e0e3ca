-- SPDX-License-Identifier: MIT
-- Runs two functions that LuaJIT compiles. Their loops are alike, and the second one runs three
-- times as often.
local function one(n)
	local x = 0
	for i = 1, n do x = x + i % 7 end
	return x
end
local function three(n)
	local x = 0
	for i = 1, 3 * n do x = x + i % 7 end
	return x
end
for _ = 1, tonumber(arg[1]) do
	one(100000)
	three(100000)
end
