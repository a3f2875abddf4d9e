import { everyObject } from "../backup/directory.ts";
import { destinationKeyOf, destinationName, syncDestination } from "../objects/stubs.ts";
import { type DestinationListing, forgetListing, pageOfAssociations, pageOfDestinations } from "./destinations.ts";

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

  let some: Promise<void>[] = [];
  const soon = async (work: Promise<void>) => {
    some.push(work);
    if (some.length < AT_ONCE) return;
    await Promise.all(some);
    some = [];
  };
  for await (const { kind, name } of everyObject(env)) {
    if (kind !== "sync-destination") continue;
    counts.destinations++;
    await soon(relist(name));
  }
  await Promise.all(some);

  for (let after: DestinationListing | null = { namespace: "", type: "", name: "" }; after; ) {
    const page: DestinationListing[] = await pageOfDestinations(db, after);
    for (const listed of page) {
      counts.listed_destinations++;
      if (!isName(listed)) await forgetListing(db, listed);
      else if (!relisted.has(destinationName(listed))) await relist(destinationName(listed));
    }
    after = page.at(-1) ?? null;
  }

  for (let after: Awaited<ReturnType<typeof pageOfAssociations>>[number] | null = null; ; ) {
    const page = await pageOfAssociations(db, after);
    const byDestination = Map.groupBy(page, (row) => JSON.stringify([row.namespace, row.type, row.name]));
    for (const rows of byDestination.values()) {
      const [listed] = rows;
      if (!listed) continue;
      counts.listed_associations += rows.length;
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
