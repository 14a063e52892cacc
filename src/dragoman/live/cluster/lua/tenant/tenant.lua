-- How much of its limit each instance has for a tenant: instance_id -> size, a space, until when it counts.
local BLOCKS = {sessions = KEYS[1], in_flight = KEYS[2]}
