/**
 * An object's methods as seen by callers: plain values in, plain values out. The runtime's own type wraps every value,
 * because a value might hold stubs; ours never do.
 */
export type Remote<T> = {
  [K in keyof T as T[K] extends (...parameters: never[]) => unknown ? K : never]: T[K] extends (
    ...parameters: infer Parameters
  ) => infer Answer
    ? (...parameters: Parameters) => Promise<Awaited<Answer>>
    : never;
};

/** A stub with its type for callers. */
export const remote = <T>(stub: unknown): Remote<T> => stub as Remote<T>;
