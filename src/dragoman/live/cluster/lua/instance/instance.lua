-- An instance's keys. RECORD says where it stands: standing (up, left, down), incarnation and born_ms,
-- when that life joined, until_ms, card; while others deal with it, suspected_at_ms, cleaner, cleaner_until_ms and finished. INBOX is the
-- stream of notes to it, read by the one group GROUP, in which each incarnation is a consumer.
local RECORD, INBOX = KEYS[1], KEYS[2]
local GROUP = 'instance'

local function fact(name)
  return redis.call('HGET', RECORD, name)
end

local function is_alive()
  return fact('standing') == 'up' and tonumber(fact('until_ms')) > now_ms
end

-- Why a process may not speak for the instance, or nil when it may. A record that Redis has
-- forgotten refuses no process.
local function refused(incarnation)
  local present = fact('incarnation')
  if present and present ~= incarnation then return {'superseded'} end
  if present and fact('standing') ~= 'up' then return {'taken_down'} end
end

-- Whether the record is of a life of the instance before the one that joined then: Redis was taken
-- back to an earlier time. Such a life has not superseded a later one.
local function is_of_earlier_life(incarnation, born_ms)
  local present, present_born_ms = fact('incarnation'), tonumber(fact('born_ms'))
  return present and present ~= incarnation and present_born_ms and present_born_ms < born_ms
end

-- Whether a cleaner may clean up after one life of the instance.
local function is_cleaner(token, incarnation)
  return fact('standing') == 'down' and fact('incarnation') == incarnation
    and fact('cleaner') == token
end

local function appear(incarnation, born_ms, ttl_ms, card)
  hset(RECORD, 'standing', 'up')
  hset(RECORD, 'incarnation', incarnation)
  hset(RECORD, 'born_ms', born_ms)
  hset(RECORD, 'until_ms', now_ms + ttl_ms)
  hset(RECORD, 'card', card)
end

-- The inbox with its group, which is there already unless Redis has forgotten it.
local function open_inbox()
  written[INBOX] = true
  redis.pcall('XGROUP', 'CREATE', INBOX, GROUP, '0', 'MKSTREAM')
end
