-- Read one checkpoint.
-- KEYS: [1] checkpoints (see checkpoint_save.lua). ARGV: id.
-- Returns its blob, or null.

return redis.call('HGET', KEYS[1], 'b' .. take())
