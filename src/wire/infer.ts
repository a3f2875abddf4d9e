import type * as z from "zod";

/** The names that a type states itself, without those of an index signature. */
type Stated<T> = keyof { [Name in keyof T as string extends Name ? never : Name]: T[Name] };

/**
 * The type of an answer by its schema: read-only, and without the index signature of objects that may have further
 * fields. A record keeps its own.
 */
export type Wire<Schema extends z.ZodType> = Plain<z.output<Schema>>;

type Plain<T> = T extends readonly (infer Each)[]
  ? readonly Plain<Each>[]
  : T extends object
    ? [Stated<T>] extends [never]
      ? { readonly [Name in keyof T]: Plain<T[Name]> }
      : { readonly [Name in keyof T as string extends Name ? never : Name]: Plain<T[Name]> }
    : T;
