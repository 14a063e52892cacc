-- count: count one more in the window.
-- arguments  window_ms
-- answers    count resets_in_ms
local function operation(arguments)
  return count(arguments[1])
end
