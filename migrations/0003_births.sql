-- The storage that AccessControl began with: one that is empty later was lost, and does not begin anew.
CREATE TABLE IF NOT EXISTS births (
  object TEXT PRIMARY KEY,
  id TEXT NOT NULL
) WITHOUT ROWID;
