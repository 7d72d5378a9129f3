-- Answers that said "with the current hold", with the hold they meant.
local settle_answers = (answers ~= '\0' or others) and function(bytes, meant)
  local out, at = { sub(bytes, 1, 1) }, 2
  for _ = 1, byte(bytes) do
    local first, n = unpack('<c20I2', bytes, at)
    local answer = sub(bytes, at + 22, at + 21 + n)
    if unpack('<I2', answer, HEAD + 1) == CURRENT_HOLD then
      answer = sub(answer, 1, HEAD) .. pack('<I2', #meant) .. meant .. sub(answer, HEAD + 3)
    end
    out[#out + 1] = first .. pack('<I2', #answer) .. answer
    at = at + 22 + n
  end
  return table.concat(out)
end
