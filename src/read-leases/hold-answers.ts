/** Objects whose answers can be held back: see `LeaseOwner.hold`. */
type Holding = { hold<T>(answer: T, key: string | null): T };
type Method = (this: Holding, ...given: unknown[]) => unknown;

/**
 * Has methods of a class hold their answers back while changes that these may include are not settled.
 * @param keyOf key of an answer, by the first parameter of the call; null for any
 */
export function holdAnswers<T extends object>(
  { prototype }: { readonly prototype: T },
  keyOf: (first: string) => string | null,
  names: readonly (keyof T & string)[],
): void {
  for (const name of names) {
    const method = prototype[name] as Method;
    const value = function (this: Holding, ...given: unknown[]): unknown {
      return this.hold(Reflect.apply(method, this, given), keyOf(given[0] as string));
    };
    Object.defineProperty(prototype, name, { value, writable: true, configurable: true });
  }
}
