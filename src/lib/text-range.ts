/** The smallest text greater than all texts with `prefix`: prefix search is a range, never LIKE. */
export const upperBound = (prefix: string): string => `${prefix}\u{10FFFF}`;
