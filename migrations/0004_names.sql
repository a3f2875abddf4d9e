-- Names of secrets and of roles, for search. Never a value. Every row is a copy of a row of the object of a mount.
CREATE TABLE names (
  owner TEXT NOT NULL,
  lower TEXT NOT NULL,
  path TEXT NOT NULL,
  folded TEXT NOT NULL,
  PRIMARY KEY (owner, lower, path)
) WITHOUT ROWID;
