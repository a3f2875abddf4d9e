import { mapLimit } from "../lib/map-limit.ts";
import {
  type DestinationListing,
  pagesOfAssociations,
  pagesOfDestinations,
  projectDestination,
} from "../listings/destinations.ts";
import { countNames, dropNames, nextOwner } from "../listings/names.ts";
import type { ObjectName } from "../platform/durable/object-kinds.ts";
import { destinationKeyOf, destinationName } from "../rpc/destination-name.ts";
import { accessControl, credentialEngine, kvStore, syncDestination } from "../rpc/stubs.ts";
import { everyObject } from "./directory.ts";

/** Destinations, or mounts, queried concurrently. */
const MAX_CONCURRENT = 6;
/** After this, destinations with many associations continue behind the answer. */
const WAIT_MS = 20_000;

/**
 * Reconciles the listings with the objects while both change. First destinations write their rows, ordered with their
 * other updates. Then each destination removes listed rows that it does not have. Correct rows are never missing;
 * repeated or concurrent runs are harmless.
 * @returns existing destinations, and listed rows at the end, with names of secrets and roles. `behind`: destinations
 * with undelivered updates, which continue in the background, and which a repeat does not begin again, and mounts with
 * names that are not compared yet
 * @throws when D1 fails
 */
export async function rebuildListings(env: Env) {
  const db = env.LISTINGS;
  const counts = { destinations: 0, listed_destinations: 0, listed_associations: 0, listed_names: 0, behind: 0 };
  const relisted = new Set<string>();
  const deadline = Date.now() + WAIT_MS;
  const relist = async (name: string) => {
    relisted.add(name);
    if (!(await syncDestination(env, name).relist(null, deadline))) counts.behind++;
  };

  const mounts: ObjectName[] = [];
  let some: string[] = [];
  const relistSome = async () => {
    await Promise.all(some.map(relist));
    some = [];
  };
  for await (const { kind, name } of everyObject(env)) {
    if (kind === "kv-store" || kind === "credential-engine") mounts.push({ kind, name });
    if (kind !== "sync-destination") continue;
    counts.destinations++;
    some.push(name);
    if (some.length === MAX_CONCURRENT) await relistSome();
  }
  await relistSome();

  const forget = (listed: DestinationListing) => projectDestination(db, listed, false);
  for await (const page of pagesOfDestinations(db)) {
    for (const listed of page) {
      counts.listed_destinations++;
      if (!isName(listed)) await forget(listed);
      else if (!relisted.has(destinationName(listed))) await relist(destinationName(listed));
    }
  }

  for await (const page of pagesOfAssociations(db)) {
    counts.listed_associations += page.length;
    for (const rows of Map.groupBy(page, (row) => JSON.stringify([row.namespace, row.type, row.name])).values()) {
      const [listed] = rows;
      if (!listed) continue;
      if (isName(listed)) await syncDestination(env, destinationName(listed)).relist(rows);
      else await forget(listed);
    }
  }

  counts.behind += await relistNames(env, mounts);
  counts.listed_names = await countNames(db);
  return counts;
}

export type Rebuilt = Readonly<Awaited<ReturnType<typeof rebuildListings>>>;

/** Compares the names of all mounts, and removes those of others. @returns the number of mounts that are behind */
async function relistNames(env: Env, mounts: readonly ObjectName[]): Promise<number> {
  const db = env.LISTINGS;
  const deadline = Date.now() + WAIT_MS;
  let behind = 0;
  await mapLimit([...mounts], MAX_CONCURRENT, async ({ kind, name }) => {
    const owner = kind === "kv-store" ? kvStore(env, name) : credentialEngine(env, name);
    if (!(await owner.relistNames(deadline))) behind++;
  });
  const owners = new Set(mounts.map(({ name }) => name));
  for (let owner = await nextOwner(db, ""); owner !== null; owner = await nextOwner(db, owner)) {
    // A mount may be younger than the enumeration.
    if (owners.has(owner) || (await accessControl(env).mountPlace(owner))) continue;
    while (!(await dropNames(db, owner)));
  }
  return behind;
}

/** Whether a listed key can be a destination. */
function isName({ namespace, type, name }: DestinationListing): boolean {
  const key = destinationKeyOf(destinationName({ namespace, type, name }));
  return type !== "" && name !== "" && key.namespace === namespace && key.type === type && key.name === name;
}
