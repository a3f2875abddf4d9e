import { destinationKeyOf, destinationName } from "../contracts/destination.ts";
import { syncDestination } from "../contracts/stubs.ts";
import {
  type DestinationListing,
  forgetListing,
  type ListedAssociation,
  pageOfAssociations,
  pageOfDestinations,
} from "../listings/destinations.ts";
import { everyObject } from "./directory.ts";

/** What a rebuild looked at: destinations that there are, and rows that were listed in the end. `behind`: destinations that could not tell all yet; they go on by themselves. */
export interface Rebuilt {
  readonly destinations: number;
  readonly listed_destinations: number;
  readonly listed_associations: number;
  readonly behind: number;
}

/** Destinations that are asked at the same time. */
const AT_ONCE = 6;

/**
 * Brings the listings in line with the objects, while both go on changing. Destinations put in what they have, in line with
 * what else they tell; then every row that is listed is shown to its destination, which takes out what it does not have. So
 * nothing that is listed rightly is ever missing, and running it again, or while another runs, does no harm.
 * @throws when D1 does
 */
export async function rebuildListings(env: Env): Promise<Rebuilt> {
  const db = env.LISTINGS;
  const counts = { destinations: 0, listed_destinations: 0, listed_associations: 0, behind: 0 };
  const relisted = new Set<string>();
  const relist = async (name: string) => {
    relisted.add(name);
    if (!(await syncDestination(env, name).relist(null))) counts.behind++;
  };

  let some: string[] = [];
  const relistSome = async () => {
    await Promise.all(some.map(relist));
    some = [];
  };
  for await (const { kind, name } of everyObject(env)) {
    if (kind !== "sync-destination") continue;
    counts.destinations++;
    some.push(name);
    if (some.length === AT_ONCE) await relistSome();
  }
  await relistSome();

  for (let after: DestinationListing | null = null; ; ) {
    const page: DestinationListing[] = await pageOfDestinations(db, after);
    for (const listed of page) {
      counts.listed_destinations++;
      if (!isName(listed)) await forgetListing(db, listed);
      else if (!relisted.has(destinationName(listed))) await relist(destinationName(listed));
    }
    after = page.at(-1) ?? null;
    if (!after) break;
  }

  for (let after: ListedAssociation | null = null; ; ) {
    const page: ListedAssociation[] = await pageOfAssociations(db, after);
    counts.listed_associations += page.length;
    for (const rows of Map.groupBy(page, (row) => JSON.stringify([row.namespace, row.type, row.name])).values()) {
      const [listed] = rows;
      if (!listed) continue;
      if (isName(listed)) await syncDestination(env, destinationName(listed)).relist(rows);
      else await forgetListing(db, listed);
    }
    after = page.at(-1) ?? null;
    if (!after) return counts;
  }
}

/** Whether a listed destination can be one at all. */
function isName({ namespace, type, name }: DestinationListing): boolean {
  const key = destinationKeyOf(destinationName({ namespace, type, name }));
  return type !== "" && name !== "" && key.namespace === namespace && key.type === type && key.name === name;
}
