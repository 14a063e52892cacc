-- The names of all instances that are present or not yet cleaned up after, with their incarnations.
local KNOWN = KEYS[1]
