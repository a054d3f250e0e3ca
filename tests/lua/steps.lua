-- SPDX-License-Identifier: MIT
-- Moves stacks, and ends calls without a hook, for lua_steps.c.
require "ringpipe"

-- Each call needs more slots than a new stack has.
local function wide(level)
	local a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z
	local aa, bb, cc, dd, ee, ff, gg, hh, ii, jj, kk, ll, mm, nn, oo, pp, qq, rr
	if level > 0 then wide(level - 1) end
end
local resume = coroutine.wrap(function()
	stepped(grow, 50)
end)

stepped(wide, 2)
stepped(grow, 100)
stepped(churn)
resume()
