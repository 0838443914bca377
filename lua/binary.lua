-- For a server whose Lua has no struct: the two functions of it that this script uses, for doubles alone.
struct = {}

function struct.unpack(form, text)
  local numbers = {}
  for i = 1, #text, 8 do
    local b1, b2, b3, b4, b5, b6, b7, b8 = string.byte(text, i, i + 7)
    local exponent, fraction = b8 % 128 * 16 + (b7 - b7 % 16) / 16, b7 % 16
    for _, byte in ipairs({b6, b5, b4, b3, b2, b1}) do fraction = fraction * 256 + byte end
    local x = 0 / 0 -- the infinite ones, too: they are no numbers of ours
    if exponent == 0 then
      x = 0
    elseif exponent < 2047 then
      x = math.ldexp(fraction + 4503599627370496, exponent - 1075)
    end
    numbers[#numbers + 1] = b8 < 128 and x or -x
  end
  return unpack(numbers)
end

function struct.pack(form, ...)
  local bytes = {}
  for _, x in ipairs({...}) do
    local fraction, exponent = math.frexp(math.abs(x))
    if x ~= x then
      exponent, fraction = 2047, 1
    elseif x == 0 then
      exponent, fraction = 0, 0
    else
      exponent = exponent + 1022
      fraction = (2 * fraction - 1) * 4503599627370496
    end
    for _ = 1, 6 do
      local byte = fraction % 256
      bytes[#bytes + 1] = string.char(byte)
      fraction = (fraction - byte) / 256
    end
    local low = exponent % 16
    bytes[#bytes + 1] = string.char(low * 16 + fraction)
    bytes[#bytes + 1] = string.char((x < 0 and 128 or 0) + (exponent - low) / 16)
  end
  return table.concat(bytes)
end
