/** Methods that look at text, with the characters that one call looks at or copies. */
const COSTS = {
  charAt: () => 1,
  charCodeAt: () => 1,
  codePointAt: () => 1,
  at: () => 1,
  startsWith: (_text: string, [start]: unknown[]) => String(start).length,
  endsWith: (_text: string, [end]: unknown[]) => String(end).length,
  slice: (_text: string, _given: unknown[], result: unknown) => String(result).length,
  substring: (_text: string, _given: unknown[], result: unknown) => String(result).length,
  includes: (text: string) => text.length,
  split: (text: string) => text.length,
  trim: (text: string) => text.length,
  replace: (text: string) => text.length,
  replaceAll: (text: string) => text.length,
  toLowerCase: (text: string) => text.length,
  indexOf: (text: string, [piece, from]: unknown[], result: unknown) =>
    (Number(result) < 0 ? text.length : Number(result)) - Number(from ?? 0) + String(piece).length,
} as const;
type Method = (this: unknown, ...given: unknown[]) => unknown;

/**
 * Counts the characters that `work` looks at by methods of strings and regular expressions, so that a test of speed needs no
 * clock. A character that a regular expression looks at several times counts once.
 */
export function textSteps<T>(work: () => T): { value: T; steps: number } {
  let steps = 0;
  const undo: (() => void)[] = [];
  const watch = (
    prototype: object,
    name: string,
    cost: (text: unknown, given: unknown[], result: unknown) => number,
  ) => {
    const original = Reflect.get(prototype, name) as Method;
    const watched: Method = function (...given) {
      const result = original.apply(this, given);
      steps += 1 + Math.max(0, cost(this, given, result));
      return result;
    };
    Object.defineProperty(prototype, name, { value: watched, configurable: true, writable: true });
    undo.push(() => Object.defineProperty(prototype, name, { value: original, configurable: true, writable: true }));
  };
  for (const [name, cost] of Object.entries(COSTS)) {
    watch(String.prototype, name, (text, given, result) => cost(String(text), given, result));
  }
  watch(RegExp.prototype, "exec", (pattern, [text], result) => {
    if (result !== null) return (result as RegExpExecArray)[0].length;
    return pattern instanceof RegExp && pattern.sticky ? 1 : String(text).length;
  });
  try {
    const value = work();
    return { value, steps };
  } finally {
    for (const restore of undo.reverse()) restore();
  }
}
