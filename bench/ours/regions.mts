/**
 * Four regions in one process: calls between objects, and between Workers and objects, take as long as the way between
 * their regions. Owners are in Frankfurt, replicas in the region that their name begins with.
 */

export const REGIONS = {
  frankfurt: { hint: "weur", continent: "EU", longitude: "9" },
  virginia: { hint: "enam", continent: "NA", longitude: "-77" },
  singapore: { hint: "apac", continent: "AS", longitude: "104" },
  "sao-paulo": { hint: "sam", continent: "SA", longitude: "-47" },
} as const;
export type Region = keyof typeof REGIONS;
export const REGION_NAMES = Object.keys(REGIONS) as Region[];

/** The region of all owners. */
export const HOME: Region = "frankfurt";

/**
 * Round trips between regions in ms, measured between data centres of a cloud in 2017
 * (https://acomputerscientistlearnsaws.blogspot.com/2017/04/aws-regions.html); today's are the same or shorter.
 */
const ROUND_TRIPS: Readonly<Record<string, number>> = {
  "frankfurt virginia": 88.6,
  "frankfurt singapore": 325.9,
  "frankfurt sao-paulo": 194.9,
  "virginia singapore": 216.7,
  "virginia sao-paulo": 119.5,
  "singapore sao-paulo": 328.1,
};
/** Between an edge location and an object of its region. An assumption. */
const WITHIN_REGION_MS = 2;

/** The round trip between two regions, in ms. */
export const roundTrip = (one: Region, other: Region): number =>
  one === other ? WITHIN_REGION_MS : (ROUND_TRIPS[`${one} ${other}`] ?? ROUND_TRIPS[`${other} ${one}`] ?? Number.NaN);

/** The region of an object, by the name of a replica. */
export const regionOfObject = (name: string | undefined): Region =>
  REGION_NAMES.find((region) => name?.startsWith(`${REGIONS[region].hint}-`)) ?? HOME;
