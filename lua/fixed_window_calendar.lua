-- fixed_window_calendar is fixed_window with windows of the calendar. options are the longest window, and week, month or year.
local DAY = 86400000000

-- first_day returns the days from the epoch to the first of a month. Years are counted from March on, so that a leap day is the
-- last of its year.
local function first_day(year, month)
  if month < 3 then year = year - 1 end
  local of_year = floor_div(153 * ((month + 9) % 12) + 2, 5)
  return 365 * year + floor_div(year, 4) - floor_div(year, 100) + floor_div(year, 400) + of_year - 719468
end

-- calendar_window returns where the window of an instant begins and ends.
local function calendar_window(now, unit)
  local days = floor_div(now, DAY)
  if unit == 'week' then
    local monday = days - (days + 3) % 7 -- the epoch was a Thursday
    return monday * DAY, (monday + 7) * DAY
  end

  -- The mean year is 365.2425 days long, so this is the year, or one next to it.
  local year = 1970 + floor_div(days * 400, 146097)
  while first_day(year, 1) > days do year = year - 1 end
  while first_day(year + 1, 1) <= days do year = year + 1 end
  if unit == 'year' then return first_day(year, 1) * DAY, first_day(year + 1, 1) * DAY end

  local month = 12
  while first_day(year, month) > days do month = month - 1 end
  local next = month == 12 and first_day(year + 1, 1) or first_day(year, month + 1)
  return first_day(year, month) * DAY, next * DAY
end

local function fixed_window_calendar(last, used, aux, seq, requests, window, tick, cost, at, key, options, counting)
  if ahead(last, used, at, window) then last = at end
  local now = now_of(last, used, at)
  local start, ends = calendar_window(now, string.match(options, '%a+$'))
  local count = used
  if last < start then count = 0 end
  local allowed, remaining, retry, reset
  count, allowed, remaining, retry, reset = count_in_window(count, requests, cost, ends - at)
  if not allowed and counting then
    count, remaining, reset = count_denied(count, cost), 0, ends - at
  end
  if cost > 0 and (allowed or counting) then last, used, aux = now, count, 0 end
  return allowed, remaining, retry, reset, 0, last, used, aux, 0
end
