-- Repairs that know nothing of what a key holds, for the operator's check. Each removes something only
-- while it is what was found; whatever was written there since stays.

local function is_kind(key, kind)
  return call('TYPE', key).ok == kind
end

local function has(key, field, found)
  return is_kind(key, 'hash') and (call('HGET', key, field) or '') == found
end

-- remove_field: remove a field of a hash.
-- keys     hash
-- args     1 '<d' time; field; what was found there
-- answers  1 | 0 when there is something else by now
local function remove_field(keys, args, shared_now)
  clock(args[1], shared_now)
  if not has(keys[1], args[2], args[3]) then return 0 end
  return call('HDEL', keys[1], args[2])
end

-- remove_hash: remove a hash, by one of its fields.
-- keys     hash
-- args     1 '<d' time; field; what was found there, '' for nothing
-- answers  1 | 0 when there is something else by now
local function remove_hash(keys, args, shared_now)
  clock(args[1], shared_now)
  if not has(keys[1], args[2], args[3]) then return 0 end
  return call('UNLINK', keys[1])
end

-- remove_string: remove a string.
-- keys     string
-- args     1 '<d' time; what was found there
-- answers  1 | 0 when there is something else by now
local function remove_string(keys, args, shared_now)
  clock(args[1], shared_now)
  if not is_kind(keys[1], 'string') or call('GET', keys[1]) ~= args[2] then return 0 end
  return call('UNLINK', keys[1])
end

-- remove_kind: remove a key of a type that it must not have.
-- keys     key
-- args     1 '<d' time; the type that was found
-- answers  1 | 0 when it is of another type by now
local function remove_kind(keys, args, shared_now)
  clock(args[1], shared_now)
  if not is_kind(keys[1], args[2]) then return 0 end
  return call('UNLINK', keys[1])
end

-- remove_alone: remove a key that is of no use without another.
-- keys     key, the other
-- args     1 '<d' time
-- answers  1 | 0 when the other is there by now
local function remove_alone(keys, args, shared_now)
  clock(args[1], shared_now)
  if call('EXISTS', keys[2]) == 1 then return 0 end
  return call('UNLINK', keys[1])
end

register('remove_field', remove_field, 'allow-oom')
register('remove_hash', remove_hash, 'allow-oom')
register('remove_string', remove_string, 'allow-oom')
register('remove_kind', remove_kind, 'allow-oom')
register('remove_alone', remove_alone, 'allow-oom')
