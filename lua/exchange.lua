-- One exchange of a synchronized store: each key that has changed in a process. It charges what the process has admitted
-- to the record of the fleet, whether or not that would admit it: algorithms/spending.go has the same functions.
--
-- KEYS: where the process's last exchange is noted, then the records.
-- ARGV: the process, the number of this exchange, how long the note lives in milliseconds; per record one text of the
--       mark under which the process has last written it, its state (last, used, aux), the shape, the record's life in
--       milliseconds, and the fields of algorithms.Exchanged.
-- Reply: per record '' where the state of the process stands, else the record's last, used and aux.
--
-- A record is a text: the mark of its writer, and the state.

local function whole(x) return string.format('%.0f', x) end

local function floor_div(a, b) return (a - a % b) / b end

local function ceil_div(a, b) return (a - a % b) / b + (a % b > 0 and 1 or 0) end

local WINDOW, ANCHORED, COUNTER = 1, 2, 3 -- the shapes; 4 is a bucket
local MOST = 9007199254740991
local mark = ARGV[1] .. '.' .. ARGV[2]

-- A key that another program has made a list or a hash counts as missing, as a text that cannot be parsed: an error in the
-- midst of the script would leave the exchange half charged.
local function get(key)
  local value = redis.pcall('GET', key)
  return type(value) == 'string' and value or ''
end

-- The process sends an exchange again whose answer did not come. It is charged once. The first copy may arrive after the
-- second, and after later exchanges: the process no longer waits for its answer, and nothing of it is charged.
local noted = get(KEYS[1])
if tonumber(noted) and tonumber(noted) > tonumber(ARGV[2]) then return {} end
local again = noted == ARGV[2]
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])

local function sum(a, b) return math.min(a + b, MOST) end

local function counts(shape, last, used, aux, x)
  local before, gone = shape == COUNTER and x.before or 0, 2
  if used > 0 then gone = floor_div(x.last, x.window) - floor_div(last, x.window) end
  if gone > 1 then return x.last, x.spent, before end
  if gone == 1 then return x.last, x.spent, shape == COUNTER and sum(before, used) or 0 end
  if gone == -1 and shape == COUNTER then return last, used, sum(aux, x.spent) end
  if gone < 0 then return last, used, aux end
  return math.max(last, x.last), sum(used, x.spent), sum(aux, before)
end

local function anchored(last, used, aux, x)
  if used == 0 or x.last - aux >= x.window then return x.last, x.spent, x.first end
  if aux - x.first >= x.window then return last, used, aux end
  return math.max(last, x.last), sum(used, x.spent), aux
end

local function drained(debt, drain, elapsed)
  if elapsed >= ceil_div(debt, drain) then return 0 end
  return debt - elapsed * drain
end

-- A debt above the capacity lies ahead: full at the instant at which so much is left, and never 0: that
-- would be a key never used.
local function bucket(last, used, aux, x)
  local debt, at = 0, x.first
  if used > 0 and aux > 0 then
    debt, at = used, math.max(at, last)
    if aux ~= x.token then debt = math.min(ceil_div(debt, aux) * x.token, x.capacity) end
    debt = drained(math.min(debt, x.capacity), x.drain, at - last)
  end
  debt = debt + x.spent
  if at < x.last then
    debt = math.max(drained(debt, x.drain, x.last - at), x.own)
    at = x.last
  end
  local latest = math.max(last, x.last + x.window)
  if debt > x.capacity then
    local ahead = ceil_div(debt - x.capacity, x.drain)
    debt = math.min(x.capacity, math.max(1, debt - ahead * x.drain))
    at = at + ahead
  end
  return math.min(at, latest), debt, x.token
end

-- A record that cannot be read counts as missing.
local function parse(record)
  local writer, last, used, aux = string.match(record, '^(%S+) (%-?%d+) (%d+) (%-?%d+)$')
  last, used, aux = tonumber(last), tonumber(used), tonumber(aux)
  if not (last and used and aux) or math.max(math.abs(last), used, math.abs(aux)) > MOST then return nil end
  return writer, last, used, aux
end

local function text(last, used, aux) return whole(last) .. ' ' .. whole(used) .. ' ' .. whole(aux) end

local reply = {}
for i = 2, #KEYS do
  local base, last, used, aux, shape, life, spent, before, first, at, own, window, capacity, token, drain =
    string.match(ARGV[i + 2], '^' .. string.rep('(%S+) ', 14) .. '(%S+)$')
  local writer, its_last, its_used, its_aux = parse(get(KEYS[i]))
  local state = last .. ' ' .. used .. ' ' .. aux
  reply[i - 1] = ''

  if again or writer == mark then
    -- What others have charged since is in the record, and so is this exchange. Redis may have evicted the note: the mark of
    -- the record is then as good.
    if writer then
      local now = text(its_last, its_used, its_aux)
      if writer ~= mark or now ~= state then reply[i - 1] = now end
    end
  else
    -- Without another writer the state of the process is the fleet's. That it has to be charged to another one is rare.
    if writer and writer ~= base then
      local x = {spent = spent + 0, before = before + 0, first = first + 0, last = at + 0, own = own + 0,
        window = window + 0, capacity = capacity + 0, token = token + 0, drain = drain + 0}
      shape = shape + 0
      if shape == ANCHORED then
        state = text(anchored(its_last, its_used, its_aux, x))
      elseif shape == WINDOW or shape == COUNTER then
        state = text(counts(shape, its_last, its_used, its_aux, x))
      else
        state = text(bucket(its_last, its_used, its_aux, x))
      end
      reply[i - 1] = state
    end
    redis.call('SET', KEYS[i], mark .. ' ' .. state, 'PX', life)
  end
end
return reply
