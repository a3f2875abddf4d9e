-- Which secrets are associated with which destinations: for lists and for "where does this secret go?".
CREATE TABLE associations (
  namespace TEXT NOT NULL, mount TEXT NOT NULL, secret TEXT NOT NULL, type TEXT NOT NULL, name TEXT NOT NULL,
  PRIMARY KEY (namespace, mount, secret, type, name)
) WITHOUT ROWID;
CREATE INDEX associations_by_destination ON associations (namespace, type, name);
