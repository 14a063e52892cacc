-- drop: forget letters.
-- arguments  letter_id, ...
-- answers    how many there were
local function operation(letter_ids)
  local dropped = 0
  for _, letter_id in ipairs(letter_ids) do dropped = dropped + forget(letter_id) end
  return {dropped}
end
