-- List the checkpoints of a workflow.
-- KEYS: [1] places (see checkpoint_save.lua). ARGV: the bounds of the workflow's places.
-- Returns the places in order.

return redis.call('ZRANGEBYLEX', KEYS[1], take(), take())
