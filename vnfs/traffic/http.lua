-- SPDX-License-Identifier: Apache-2.0
-- wrk: a share of the requests asks for one of a few hot objects again, the rest for new ones.
-- arguments: object size in KB, share of repeated requests, number of hot objects, seed
local size, share, hot

function setup(thread)
  counter = (counter or 0) + 1
  thread:set("number", counter)
end

function init(args)
  size, share, hot = args[1], tonumber(args[2]), tonumber(args[3])
  math.randomseed(tonumber(args[4]) * 1000 + number)
  serial, run = 0, args[4]
end

function request()
  local name
  if math.random() < share then
    name = "hot-" .. math.random(hot)
  else
    serial = serial + 1
    name = run .. "-" .. number .. "-" .. serial
  end
  return wrk.format("GET", "/o/" .. size .. "/" .. name)
end

function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    'headrace {"requests":%d,"duration_us":%d,"bytes":%d,"errors":{"connect":%d,"read":%d,' ..
    '"write":%d,"status":%d,"timeout":%d},"latency_us":{"min":%d,"mean":%.1f,"p50":%d,"p90":%d,' ..
    '"p99":%d,"p999":%d,"max":%d}}\n',
    summary.requests, summary.duration, summary.bytes, e.connect, e.read, e.write, e.status,
    e.timeout, latency.min, latency.mean, latency:percentile(50), latency:percentile(90),
    latency:percentile(99), latency:percentile(99.9), latency.max))
end
