/** Location of a client as reported by the edge, or the place that the client has named. */
export interface ClientLocation {
  readonly place?: Region;
  readonly continent?: unknown;
  /** In degrees, as text. */
  readonly longitude?: unknown;
}

type Region = DurableObjectLocationHint;

/** The location hints (https://developers.cloudflare.com/durable-objects/reference/data-location/). */
export const REGIONS = [
  "wnam",
  "enam",
  "sam",
  "weur",
  "eeur",
  "apac",
  "oc",
  "afr",
  "me",
] as const satisfies readonly Region[];

/** Names the place whose replica answers; the answer names the replica in `REPLICA_HEADER`. */
export const PLACE_HEADER = "X-Sallyport-Place";
export const REPLICA_HEADER = "X-Sallyport-Replica";

/** The location of a client that names a place; null for an unknown one. */
export function locationNamed(name: string): ClientLocation | null {
  const place = REGIONS.find((each) => each === name);
  return place ? { place } : null;
}

/**
 * Continents by Durable Object location hint; a meridian separates continents with two. The parts of `apac` have no
 * published border: only the setting `LOCATION_HINT` names them.
 */
const PLACES: ReadonlyMap<unknown, readonly [west: Region, from: number, east: Region]> = new Map([
  ["NA", ["wnam", -100, "enam"]],
  ["EU", ["weur", 20, "eeur"]],
  ["AS", ["me", 62, "apac"]],
  ["SA", ["sam", 0, "sam"]],
  ["AF", ["afr", 0, "afr"]],
  ["OC", ["oc", 0, "oc"]],
]);

/** The nearest location hint; null when the location is unknown. */
export function nearestPlace({ place, continent, longitude }: ClientLocation): Region | null {
  if (place) return place;
  const known = PLACES.get(continent);
  if (!known) return null;
  const [west, from, east] = known;
  return Number(longitude) < from ? west : east;
}

/** The name of one of `count` equal objects at a place: stable for a client while their number is constant. */
export const placedName = (place: string, client: string, count: number): string => `${place}-${hash(client) % count}`;

/** FNV-1a over the characters. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (const character of text) value = Math.imul(value ^ (character.codePointAt(0) ?? 0), 0x01000193);
  return value >>> 0;
}
