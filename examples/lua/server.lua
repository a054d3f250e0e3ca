-- SPDX-License-Identifier: MIT
-- A web service in Lua: one thread, and a coroutine for each connection.
--
-- usage: lua5.4 server.lua [PORT]
--
--	/primes/N	the number of primes below N
--	/sorted/N	sorts N numbers, by a comparison in Lua
--	/text/N		replaces words in a text of N lines, in C functions of Lua
--	/quit		ends the service
--
-- It prints its port, and at its end the number of requests that it served.
local socket = require "socket"
local ringpipe = require "ringpipe"

local source = ringpipe.source("Lua-Service")
local request_span = source:span {
	name = "Request",
	fields = { { "path", "string" }, { "peer", "string" } },
}
local served = source:event {
	name = "Served", message = "{0}: {1} bytes",
	fields = { { "path", "string" }, { "bytes", "u32" }, { "status", "u16" } },
}
local requests = source:counter { name = "requests", unit = "requests" }
local durations = source:counter { name = "request-time", kind = "histogram", unit = "ms" }

local function is_prime(number)
	for divisor = 2, math.floor(math.sqrt(number)) do
		if number % divisor == 0 then return false end
	end
	return number > 1
end

local function count_primes(limit)
	local count = 0
	for number = 2, limit - 1 do
		if is_prime(number) then count = count + 1 end
	end
	return count
end

local function sort_numbers(count)
	local numbers = {}
	for i = 1, count do numbers[i] = (i * 7919) % 104729 end
	table.sort(numbers, function(a, b) return a < b end)
	return numbers[1]
end

local function replace_words(lines)
	local text = ("the quick brown fox jumps over the lazy dog\n"):rep(lines)
	return #text:gsub("%w+", { quick = "slow", lazy = "eager" })
end

local handlers = { primes = count_primes, sorted = sort_numbers, text = replace_words }
local is_quitting = false

-- Return the status and the body of the reply.
local function handle(path)
	if path == "/quit" then
		is_quitting = true
		return 200, "bye"
	end
	local name, number = path:match("^/(%l+)/(%d%d?%d?%d?%d?%d?)$")
	if not handlers[name] then return 404, "no such page" end
	return 200, tostring(handlers[name](tonumber(number)))
end

-- Receive a line. Other coroutines run while it is not there yet.
local function receive_line(client)
	local partial = ""
	while true do
		local line, reason, more = client:receive("*l", partial)
		if line or reason ~= "timeout" then return line end
		partial = more
		coroutine.yield()
	end
end

local function reply(client, status, body)
	client:send(("HTTP/1.1 %d %s\r\nContent-Length: %d\r\n\r\n%s"):format(status,
		status == 200 and "OK" or "Not Found", #body, body))
end

local function serve_request(client, path)
	local began = socket.gettime()
	local _ <close> = request_span(path, client:getpeername() or "")
	local status, body = handle(path)
	reply(client, status, body)
	served(path, #body, status)
	requests:add(1, { status = tostring(status) })
	durations:record((socket.gettime() - began) * 1000)
end

local function serve(client)
	while true do
		local line = receive_line(client)
		local path = line and line:match("^%u+ (%S+) HTTP/1%.[01]$")
		if not path then break end
		repeat
			local header = receive_line(client)
		until not header or header == ""
		serve_request(client, path)
	end
	client:close()
end

local listening = assert(socket.bind("127.0.0.1", tonumber(arg[1] or 0), 128))
listening:settimeout(0)
local _, port = listening:getsockname()
io.write("port ", port, "\n")
io.flush()

local routines = {}
local sockets = { listening }
local function remove(client)
	routines[client] = nil
	for i = #sockets, 1, -1 do
		if sockets[i] == client then table.remove(sockets, i) end
	end
end

while not is_quitting do
	for _, ready in ipairs(socket.select(sockets)) do
		if ready == listening then
			local client = listening:accept()
			if client then
				client:settimeout(0)
				client:setoption("tcp-nodelay", true)
				sockets[#sockets + 1] = client
				routines[client] = coroutine.create(serve)
			end
		else
			local ok, message = coroutine.resume(routines[ready], ready)
			if not ok then io.stderr:write("server.lua: ", message, "\n") end
			if coroutine.status(routines[ready]) == "dead" then remove(ready) end
		end
	end
end
io.write("requests ", string.format("%d", requests:read().value), "\n")
