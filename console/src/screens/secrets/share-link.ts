/**
 * The link of a secret that is shared once. The single-use token and its end are in the fragment, which browsers do
 * not send; the namespace is in the query.
 */
import { href } from "../../app/router.ts";

export interface ShareLink {
  readonly token: string;
  /** End of the link in ms since 1970; null in a link that does not say it. */
  readonly ends: number | null;
}

export const shareUrl = ({ token, ends }: ShareLink): string =>
  `${location.origin}${href("open", [], { cluster: null })}#${token}${ends === null ? "" : `~${Math.round(ends / 1000)}`}`;

/** The parts of a fragment; null where it holds no token. */
export function parseFragment(hash: string): ShareLink | null {
  const [, token, end] = /^#([\w.-]+)(?:~(\d{1,12}))?$/.exec(hash) ?? [];
  return token ? { token, ends: end ? Number(end) * 1000 : null } : null;
}
