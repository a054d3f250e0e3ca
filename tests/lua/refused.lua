-- SPDX-License-Identifier: MIT
-- Prints the message of each declaration that the module must refuse.
local rp = require "ringpipe"
local source = rp.source("Lua-Refused")
local function refuse(what, ...)
	local ok, message = pcall(...)
	print(what, ok and "accepted" or message)
end
local function event(declaration)
	return function() return source:event(declaration) end
end

refuse("nameless", event {})
refuse("nul", event { name = "a\0b" })
refuse("type", event { name = "E", fields = { { "x", "complex" } } })
refuse("field", event { name = "E", fields = { "x" } })
refuse("field-name", event { name = "E", fields = { { "", "i32" } } })
refuse("level", event { name = "E", level = "loud" })
refuse("level-number", event { name = "E", level = 6 })
refuse("id", event { name = "E", id = -1 })
local many = {}
for i = 1, 200 do many[i] = { "f" .. i, "i32" } end
refuse("fields", event { name = "E", fields = many })
source:event { name = "Twice", id = 1 }
refuse("twice", event { name = "Twice", id = 1 })
refuse("source", rp.source, "")
refuse("source-nul", rp.source, "a\0b")
refuse("source-long", rp.source, ("x"):rep(100000))
refuse("counter", function() source:counter { name = "c", kind = "observed" } end)
refuse("self", function() source.event({}, { name = "E" }) end)
refuse("listener", rp.listen, {}, print)
refuse("listener-name", rp.listen, { {} }, print)
refuse("listener-nul", rp.listen, { "a\0b" }, print)
refuse("function", rp.listen, { "x" }, 1)
-- Metamethods cannot supply a name that nothing keeps.
refuse("metamethod", event(setmetatable({}, { __index = function() return ("x"):rep(9) end })))
source:close()
refuse("closed", event { name = "E" })
source:close()
