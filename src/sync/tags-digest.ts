import { createHash } from "node:crypto";

/** The digest of a set of tags, recorded with each push: a later push with equal tags does not send them. */
export function tagsDigest(tags: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(tags).sort(([one], [other]) => (one < other ? -1 : 1));
  return createHash("sha256").update(JSON.stringify(pairs)).digest("base64url");
}
