-- What LIST endpoints read. Every row is a copy of what an object owns, and can be rebuilt from it.
CREATE TABLE destinations (
  namespace TEXT NOT NULL,
  type TEXT NOT NULL,
  name TEXT NOT NULL,
  PRIMARY KEY (namespace, type, name)
) WITHOUT ROWID;
