/** The first text after all that start with `prefix`: prefix search is a range, never LIKE. */
export const upperBound = (prefix: string): string => `${prefix}\u{10FFFF}`;
