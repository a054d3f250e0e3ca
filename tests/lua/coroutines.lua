-- SPDX-License-Identifier: MIT
-- Prints what coroutines do at their edges. With the argument "ringpipe", the module is loaded.
if arg[1] == "ringpipe" then require "ringpipe" end
local resume, wrap = coroutine.resume, coroutine.wrap
local function show(...)
	local words = table.pack(...)
	for i = 1, words.n do
		words[i] = type(words[i]) == "table" and "table" or tostring(words[i])
	end
	print(table.concat(words, " "))
end
local function nest(levels)
	local routine
	for _ = 1, levels do
		local inner = routine
		routine = wrap(function() return inner and inner() or 1 end)
	end
	return pcall(routine)
end
local levels = 1
while nest(levels) do levels = levels + 1 end
show("nested", levels)
show(pcall(wrap(function() error("text") end)))
show(pcall(wrap(function() error({}) end)))
show(pcall(wrap(function() error() end)))
local function closes(value)
	return setmetatable({}, { __close = function() error(value, 0) end })
end
show(pcall(wrap(function() local _ <close> = closes("closing"); error("text") end)))
local close = coroutine.close
show(pcall(close, coroutine.running()))
show(pcall(close))
show(pcall(close, 1))
show(pcall(wrap(function(outer) close(outer) end), coroutine.running()))
local waiting = coroutine.create(function()
	local _ <close> = closes("closed")
	coroutine.yield()
end)
show(close(coroutine.create(print)))
resume(waiting)
show(close(waiting))
show(close(waiting), coroutine.status(waiting))
local dead = wrap(function() end)
show(dead())
show(pcall(dead))
show(resume(coroutine.running()))
local routine = coroutine.create(function(...)
	show("arguments", ...)
	show("again", coroutine.yield(1, 2, nil))
	return 3
end)
show(resume(routine, "a", "b", nil))
show(resume(routine, "c"))
show(resume(routine))
show(pcall(resume, 1))
show(pcall(resume))
show(pcall(wrap, 1))
show(pcall(wrap))
show(resume(coroutine.create(function() return table.unpack({}, 1, 200000) end)))
show(pcall(resume, coroutine.create(print), table.unpack({}, 1, 200000)))
show(select("#", resume(coroutine.create(function(...) return ... end),
	table.unpack({}, 1, 1000))))
local watched = coroutine.create(function() show(coroutine.isyieldable(), coroutine.running()
	~= routine) end)
show(resume(watched), coroutine.status(watched), coroutine.close(watched))
