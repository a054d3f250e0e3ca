-- SPDX-License-Identifier: MIT
-- Loads the module of ringpipe into HAProxy: `lua-load PATH/ringpipe.lua` in the section `global`.
-- If the module or its library is missing, HAProxy starts without it and reports the reason.
local folder = debug.getinfo(1, "S").source:match("^@(.*)/") or "."
local open, reason = package.loadlib(folder .. "/ringpipe_haproxy.so", "luaopen_ringpipe_haproxy")
local is_loaded
if open then
	is_loaded, reason = open()
end
if not is_loaded then
	core.Warning("ringpipe is not loaded: " .. reason)
end
