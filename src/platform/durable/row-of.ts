/** A row whose columns are named like the fields of `Stored`: flags are 0 or 1, and objects are JSON text. */
export type RowOf<Stored> = {
  [Name in keyof Stored]: Stored[Name] extends boolean
    ? number
    : Stored[Name] extends SqlStorageValue
      ? Stored[Name]
      : string | Extract<Stored[Name], null>;
};
