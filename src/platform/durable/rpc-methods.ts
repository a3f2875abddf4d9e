import { StoredObject } from "./stored-object.ts";

type Class = abstract new (...given: never[]) => object;
type Classes = Readonly<Record<string, Class>>;

/** One instance of each class, under its key. */
export type Components<Given extends Classes> = { readonly [Key in keyof Given]: InstanceType<Given[Key]> };

type Intersection<Union> = (Union extends unknown ? (each: Union) => void : never) extends (all: infer All) => void
  ? All
  : never;

/** The public methods of all classes together. */
type Methods<Given extends Classes> = Intersection<
  { [Key in keyof Given]: Pick<InstanceType<Given[Key]>, keyof InstanceType<Given[Key]>> }[keyof Given]
>;

/** An object whose RPC methods are those of its components. */
abstract class ComposedObject<Given extends Classes> extends StoredObject {
  /** A field, not an accessor: callers reach what is on the prototype. */
  protected abstract readonly rpc: Components<Given>;

  /** Called with the result of each method; returns what its caller gets, or a promise of it. */
  protected answered(result: unknown): unknown {
    return result;
  }
}

interface Answering<Given extends Classes> {
  readonly rpc: Components<Given>;
  answered(result: unknown): unknown;
}

type Composed<Given extends Classes> = abstract new (
  ...given: ConstructorParameters<typeof StoredObject>
) => ComposedObject<Given> & Methods<Given>;

/**
 * A base class with the public methods of `classes`: each calls the component of the same key in `rpc`. The platform
 * offers methods of an object's prototype alone, so components cannot be called where they are
 * (docs/internals/decisions/0009-components-behind-one-object.md).
 * @throws Error when two classes have a method of the same name, or when `StoredObject` has it
 */
export function composedOf<const Given extends Classes>(classes: Given): Composed<Given> {
  abstract class Composition extends ComposedObject<Given> {}
  for (const [key, { prototype }] of Object.entries(classes)) {
    for (const [name, { value: method }] of Object.entries(Object.getOwnPropertyDescriptors(prototype))) {
      if (name === "constructor") continue;
      if (name in Composition.prototype) throw new Error(`two methods of one object are named ${name}`);
      const value = function (this: Answering<Given>, ...given: unknown[]): unknown {
        return this.answered(Reflect.apply(method, this.rpc[key as keyof Given], given));
      };
      Object.defineProperty(Composition.prototype, name, { value, writable: true, configurable: true });
    }
  }
  return Composition as unknown as Composed<Given>;
}
