/**
 * Names of entities, groups and aliases. As upstream, they are compared without letter case and shown as they were
 * written; here the case of ASCII letters alone is ignored, as by SQLite's NOCASE. Older rows may differ in nothing but
 * letter case: a name then finds the row of its own spelling first, and the oldest one next.
 */

/** A name as it is compared. */
export const comparedName = (name: string): string => name.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());

/** Selects the rows of a table with a name, the best one first. Both parameters are the name. */
export const namedIn = (table: string) => ({
  condition: `${table}.name = ? COLLATE NOCASE`,
  order: `ORDER BY (${table}.name = ?) DESC, ${table}.created, ${table}.id`,
});
