-- Say whether a run may be purged.
-- KEYS: [1..4] of thread.lua. ARGV: run id.
-- Returns the fields of ENDED that would go with it; null while its thread has a claim or an open occurrence.

return is_at_rest(current()) and fields_of_run(ARGV[1])
