import { createHash } from "node:crypto";

/** Digests of sets that several tasks share. */
const digests = new WeakMap<object, string>();

/** The digest of a set of tags, recorded with each push: a later push with equal tags does not send them. */
export function tagsDigest(tags: Readonly<Record<string, string>>): string {
  const known = digests.get(tags);
  if (known !== undefined) return known;
  const pairs = Object.entries(tags).sort(([one], [other]) => (one < other ? -1 : 1));
  const digest = createHash("sha256").update(JSON.stringify(pairs)).digest("base64url");
  digests.set(tags, digest);
  return digest;
}
