/** Location of a client as reported by the edge. */
export interface ClientLocation {
  readonly continent?: unknown;
  /** In degrees, as text. */
  readonly longitude?: unknown;
}

type Region = DurableObjectLocationHint;

/** Continents by Durable Object location hint; a meridian separates continents with two. */
const PLACES: ReadonlyMap<unknown, readonly [west: Region, from: number, east: Region]> = new Map([
  ["NA", ["wnam", -100, "enam"]],
  ["EU", ["weur", 20, "eeur"]],
  ["AS", ["me", 62, "apac"]],
  ["SA", ["sam", 0, "sam"]],
  ["AF", ["afr", 0, "afr"]],
  ["OC", ["oc", 0, "oc"]],
]);

/** The nearest location hint; null when the location is unknown. */
export function nearestPlace({ continent, longitude }: ClientLocation): Region | null {
  const known = PLACES.get(continent);
  if (!known) return null;
  const [west, from, east] = known;
  return Number(longitude) < from ? west : east;
}

/** The relay of a client at a place: stable while the number of relays is constant. */
export const relayName = (place: string, client: string, relays: number): string => `${place}-${hash(client) % relays}`;

/** FNV-1a over the characters. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (const character of text) value = Math.imul(value ^ (character.codePointAt(0) ?? 0), 0x01000193);
  return value >>> 0;
}
