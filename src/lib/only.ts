/** The element of a list of one; undefined for longer lists and none. */
export const only = <T>(list: readonly T[]): T | undefined => (list.length === 1 ? list[0] : undefined);
