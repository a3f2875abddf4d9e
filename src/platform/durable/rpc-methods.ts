import { StoredObject } from "./stored-object.ts";

/**
 * The methods of a contract as a table: each row gets the parts of the object, and what its caller gave.
 * @typeParam Parts the components that the rows call
 */
export type MethodTable<Api, Parts> = {
  readonly [Name in keyof Api]: Api[Name] extends (...given: infer Given) => infer Answer
    ? (parts: Parts, ...given: Given) => Answer
    : never;
};

/** A row whose calls are grouped: see `GroupedCalls`. */
interface QuickRow<Parts> {
  /** Runs after the commit of the group; returns the answer. */
  readonly committed?: (parts: Parts, result: never, ...given: never[]) => unknown;
}

/**
 * A row without waits. Calls that arrive together are one transaction.
 * @param committed turns the result into the answer, after the commit
 */
export const quick = <Parts, Given extends unknown[], Answer>(
  row: (parts: Parts, ...given: Given) => Answer,
  committed: (parts: Parts, result: Answer, ...given: Given) => Answer,
): ((parts: Parts, ...given: Given) => Answer) =>
  Object.assign((parts: Parts, ...given: Given) => row(parts, ...given), { committed });

/** Any table over these parts. */
type Table<Parts> = Readonly<Record<string, ((parts: Parts, ...given: never[]) => unknown) & QuickRow<Parts>>>;

type Intersection<Union> = (Union extends unknown ? (each: Union) => void : never) extends (all: infer All) => void
  ? All
  : never;

/** The methods of an object with these tables. */
type Methods<Tables> = Intersection<
  Tables extends infer One
    ? {
        [Name in keyof One]: One[Name] extends (parts: never, ...given: infer Given) => infer Answer
          ? (...given: Given) => Answer
          : never;
      }
    : never
>;

/** An object whose RPC methods are rows of tables. */
abstract class ComposedObject<Parts> extends StoredObject {
  /** A field, not an accessor: callers reach what is on the prototype. */
  protected abstract readonly parts: Parts;

  /** Called with the result of each method; returns what its caller gets, or a promise of it. */
  protected answered(result: unknown): unknown {
    return result;
  }
}

interface Answering<Parts> {
  readonly parts: Parts;
  settle(): void;
  answered(result: unknown): unknown;
  grouped(call: () => unknown, committed: (result: unknown) => unknown): unknown;
}

type Composed<Parts, Tables> = abstract new (
  ...given: ConstructorParameters<typeof StoredObject>
) => ComposedObject<Parts> & Methods<Tables>;

/**
 * A base class with a method for each row of the tables, over the object's `parts`. The platform offers methods of an
 * object's prototype alone (docs/internals/decisions/0009-components-behind-one-object.md).
 * @throws Error when two rows have the same name, or when `StoredObject` has a method of it
 */
export const composedOf =
  <Parts>() =>
  <Tables extends Table<Parts>[]>(...tables: Tables): Composed<Parts, Tables[number]> => {
    abstract class Composition extends ComposedObject<Parts> {}
    for (const [name, row] of tables.flatMap((table) => Object.entries(table))) {
      if (name in Composition.prototype) throw new Error(`two methods of one object are named ${name}`);
      const { committed } = row;
      const value = function (this: Answering<Parts>, ...given: never[]): unknown {
        if (committed) {
          return this.grouped(
            () => row(this.parts, ...given),
            (result) => this.answered(committed(this.parts, result as never, ...given)),
          );
        }
        this.settle();
        return this.answered(row(this.parts, ...given));
      };
      Object.defineProperty(Composition.prototype, name, { value, writable: true, configurable: true });
    }
    return Composition as unknown as Composed<Parts, Tables[number]>;
  };
