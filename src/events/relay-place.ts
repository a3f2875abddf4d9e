/** Where a reader is, as far as the edge can tell. */
export interface Whereabouts {
  readonly continent?: unknown;
  /** In degrees, as text. */
  readonly longitude?: unknown;
}

type Region = DurableObjectLocationHint;

/** Continents as places that an object can be put at; those that have two are parted by a meridian. */
const PLACES: ReadonlyMap<unknown, readonly [west: Region, from: number, east: Region]> = new Map([
  ["NA", ["wnam", -100, "enam"]],
  ["EU", ["weur", 20, "eeur"]],
  ["AS", ["me", 62, "apac"]],
  ["SA", ["sam", 0, "sam"]],
  ["AF", ["afr", 0, "afr"]],
  ["OC", ["oc", 0, "oc"]],
]);

/** The place nearest to a reader; null when nobody knows where it is. */
export function placeOf({ continent, longitude }: Whereabouts): Region | null {
  const known = PLACES.get(continent);
  if (!known) return null;
  const [west, from, east] = known;
  return Number(longitude) < from ? west : east;
}

/** Which of a place's relays serves a client: the same one as long as there are as many. */
export const relayName = (place: string, client: string, relays: number): string => `${place}-${hash(client) % relays}`;

/** FNV-1a over the characters. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (const character of text) value = Math.imul(value ^ (character.codePointAt(0) ?? 0), 0x01000193);
  return value >>> 0;
}
