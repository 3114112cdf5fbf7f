-- SPDX-License-Identifier: Apache-2.0
-- wrk: a share of the requests asks for one of a few hot objects again, the rest for new ones.
-- arguments: object size in KB, share of repeated requests, number of hot objects, seed, connections
local size, share, hot
local left, hot_left, owed = 0, 0, 0 -- of the block of requests that is being drawn
local BLOCK = 100

function setup(thread)
  counter = (counter or 0) + 1
  first = first or thread
  thread:set("number", counter)
end

function init(args)
  size, share, hot = args[1], tonumber(args[2]), tonumber(args[3])
  math.randomseed(tonumber(args[4]) * 1000 + number)
  serial, run = 0, args[4]
  connections = tonumber(args[5])
end

-- Each block has the share exactly (a fraction of a request is owed to the next), in random order.
local function repeated()
  if left == 0 then
    local wanted = share * BLOCK + owed
    left, hot_left = BLOCK, math.floor(wanted + 1e-9)
    owed = wanted - hot_left
  end
  local chosen = math.random() * left < hot_left
  left, hot_left = left - 1, chosen and hot_left - 1 or hot_left
  return chosen
end

function request()
  local name
  if repeated() then
    name = "hot-" .. math.random(hot)
  else
    serial = serial + 1
    name = run .. "-" .. number .. "-" .. serial
  end
  return wrk.format("GET", "/o/" .. size .. "/" .. name)
end

-- wrk adds samples for the requests that its closed loop would have sent while one took long
-- ("coordinated omission"), one for each mean interval between a connection's requests that it was
-- late by. What is reported here is what requests took: those samples are taken away again, longest
-- first, since each was added for a longer one that was measured.
local function measured(latency, requests, duration_us, connections)
  local counts, total = {}, 0
  for i = 1, #latency do
    local us, count = latency(i)
    us, count = tonumber(us), tonumber(count)
    counts[us] = count
    total = total + count
  end
  local each = math.floor(requests / connections)
  local all = {}
  for us in pairs(counts) do
    all[#all + 1] = us
  end
  table.sort(all)
  if total > requests and each > 0 then
    local interval = math.floor(duration_us / each)
    for i = #all, 1, -1 do
      local us = all[i]
      if counts[us] > 0 then
        for earlier = us - interval, interval + 1, -interval do
          counts[earlier] = (counts[earlier] or 0) - counts[us]
        end
      end
    end
  end
  return all, counts
end

local function statistics(all, counts)
  local total, sum = 0, 0
  for _, us in ipairs(all) do
    total = total + counts[us]
    sum = sum + counts[us] * us
  end
  local function percentile(p)
    local seen = 0
    for _, us in ipairs(all) do
      seen = seen + counts[us]
      if counts[us] > 0 and seen >= p / 100 * total then
        return us
      end
    end
    return 0
  end
  return {mean = sum / math.max(total, 1), percentile = percentile}
end

function done(summary, latency, requests)
  local e = summary.errors
  local connections = first:get("connections") -- of a thread's state: this is another one
  local all, counts = measured(latency, summary.requests, summary.duration, connections)
  local s = statistics(all, counts)
  io.write(string.format(
    'headrace {"requests":%d,"duration_us":%d,"bytes":%d,"errors":{"connect":%d,"read":%d,' ..
    '"write":%d,"status":%d,"timeout":%d},"latency_us":{"min":%d,"mean":%.1f,"p50":%d,"p90":%d,' ..
    '"p99":%d,"p999":%d,"max":%d}}\n',
    summary.requests, summary.duration, summary.bytes, e.connect, e.read, e.write, e.status,
    e.timeout, s.percentile(0), s.mean, s.percentile(50), s.percentile(90),
    s.percentile(99), s.percentile(99.9), s.percentile(100)))
end
