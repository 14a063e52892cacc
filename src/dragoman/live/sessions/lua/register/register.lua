-- The register of sessions: each with the time at which it lapses unless its owner renews it. It is
-- there to count them, and follows their records.
local SESSIONS = KEYS[1]
