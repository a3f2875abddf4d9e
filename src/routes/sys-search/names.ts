import * as z from "zod";
import type { Mount } from "../../contracts/mount.ts";
import { rolePath } from "../../credentials/engines/description.ts";
import { engineDescriptions } from "../../credentials/engines/descriptions.ts";
import { findNames, type NameAnswer, type NameQuestion } from "../../listings/names.ts";
import { RequestError } from "../../platform/http/errors.ts";
import { textOf, warn } from "../../platform/observability/log.ts";
import { isVersioned } from "../../rights/mount-routes.ts";
import type { Evidence, Hit, Part, Search, Source } from "./search.ts";

/**
 * Secrets and roles, by the names in D1. First those whose last segment begins with the first word, mount by mount, then
 * the others. A mount is searched only if the caller has a right in it, at its path of this moment; a deleted one is not.
 */

const AT_ONCE = 8;
const MIN_FOUND = 20;
const MAX_FOUND = 200;

const Position = z.object({
  begins: z.boolean(),
  /** Every mount up to this one was searched. */
  after: z.string(),
  /** The mount that was searched up to a key. */
  within: z.object({ owner: z.string(), lower: z.string(), path: z.string() }).nullable(),
});
type Position = z.infer<typeof Position>;

const START: Position = { begins: true, after: "", within: null };

/** A name of a mount as a hit, with the paths that show its existence. */
type Named = (mount: Mount, name: string) => { readonly hit: Hit; readonly evidence: Evidence };

/** The folder of a path, with its slash; empty at the top. */
const folderOf = (path: string): string => path.slice(0, path.lastIndexOf("/") + 1);

const secret: Named = ({ namespace, path: mount, ...rest }, name) => {
  const [data, metadata] = isVersioned(rest) ? ["data/", "metadata/"] : ["", ""];
  const lists = [`${mount}${metadata}${folderOf(name)}`];
  const reads = [...new Set([`${mount}${data}${name}`, `${mount}${metadata}${name}`])];
  const hit: Hit = { type: "secret", name, namespace, mount, path: `${mount}${data}${name}` };
  return { hit, evidence: { namespace, lists, reads } };
};

const role: Named = ({ namespace, path: mount, type }, stored) => {
  const description = engineDescriptions.find((each) => each.type === type);
  const path = mount + (description ? rolePath(description, stored) : `roles/${stored}`);
  const hit: Hit = { type: "role", name: path.slice(folderOf(path).length), namespace, mount, path };
  return { hit, evidence: { namespace, lists: [folderOf(path)], reads: [path] } };
};

const isKv = ({ type }: Mount): boolean => type === "kv";

const named = (isOwner: (mount: Mount) => boolean, nameOf: Named): Source =>
  async function find(search, position, room): Promise<Part> {
    let { begins, after, within }: Position = position === null ? START : Position.parse(position);
    const hits: Hit[] = [];
    let page = await search.mounts(after);
    const isWanted = (mount: Mount): boolean => isOwner(mount) && search.includes(mount);
    const owners = page.mounts.filter(isWanted);
    while (search.goesOn && hits.length < room) {
      if (owners.length === 0) {
        if (page.isLast && !begins) return { hits, next: null };
        [begins, after] = page.isLast ? [false, ""] : [begins, page.mounts.at(-1)?.uuid ?? after];
        within = null;
        page = await search.mounts(after);
        owners.push(...page.mounts.filter(isWanted));
        continue;
      }
      const asked = owners.slice(0, AT_ONCE).map(({ uuid: owner }): NameQuestion => {
        return { owner, after: within?.owner === owner ? within : null };
      });
      for (const { found, next } of await answersOf(search, asked, begins, room)) {
        const [mount] = owners;
        if (!mount) break;
        const all = found.map(({ path }) => nameOf(mount, path));
        const visible = await search.visible(all.map(({ evidence }) => evidence));
        for (const [index, { hit }] of all.entries()) {
          const key = found[index];
          if (!key || !visible[index]) continue;
          if (hits.length === room) return { hits, next: { begins, after, within } };
          hits.push(hit);
          within = { owner: mount.uuid, ...key };
        }
        if (next) {
          within = { owner: mount.uuid, ...next };
          break;
        }
        [after, within] = [mount.uuid, null];
        owners.shift();
        if (!search.goesOn) break;
      }
    }
    return { hits, next: { begins, after, within } };
  };

/** @throws RequestError 503 when D1 fails */
async function answersOf(
  search: Search,
  questions: readonly NameQuestion[],
  begins: boolean,
  room: number,
): Promise<NameAnswer[]> {
  const limit = Math.min(Math.max(room * 2, MIN_FOUND), MAX_FOUND);
  try {
    const { answers, rowsRead } = await findNames(search.env.LISTINGS, questions, {
      words: search.words,
      begins,
      limit,
    });
    search.step(rowsRead);
    return answers;
  } catch (failure) {
    warn("listing-unread", { because: textOf(failure) });
    throw new RequestError(503, "the names cannot be read at the moment; try again");
  }
}

export const secretNames = named(isKv, secret);
export const roleNames = named((mount) => !isKv(mount), role);
