-- SPDX-License-Identifier: MIT
-- wrk's load: front page, orders placed, looked up, refused and not found, in a fixed mixture.
local requests = {}
local turn = 0

function init()
	local form = { ["Content-Type"] = "application/x-www-form-urlencoded" }

	requests = {
		wrk.format("GET", "/"),
		wrk.format("GET", "/buy"),
		wrk.format("GET", "/order/1"),
		wrk.format("GET", "/"),
		wrk.format("POST", "/order", form, "customer=%E6%9D%8E%E9%9B%B7&total=12.5"),
		wrk.format("GET", "/order/2"),
		wrk.format("GET", "/buy?customer=Anna%20%F0%9F%9B%92&total=3"),
		wrk.format("GET", "/buy?customer=Anna&total=-1"),
		wrk.format("GET", "/order/999999999"),
		wrk.format("GET", "/nothing"),
	}
end

function request()
	turn = turn % #requests + 1
	return requests[turn]
end
