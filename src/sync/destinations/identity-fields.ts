import * as z from "zod";
import { duration } from "../../platform/http/fields.ts";
import type { Refuse } from "./fields.ts";

/** The issuer has one key (docs/guides/federation.md). */
const SIGNING_KEY = "default";

/** Fields of destinations that log in with identity tokens (docs/guides/federation.md). An empty text clears one. */
export const identityTokenFields = {
  identity_token_audience: z
    .string("must be a text")
    .regex(/^[\x21-\x7e]{0,1024}$/, "must be printable characters without spaces, at most 1024")
    .optional(),
  identity_token_key: z.enum(["", SIGNING_KEY], `there is no key but ${JSON.stringify(SIGNING_KEY)}`).optional(),
  identity_token_ttl: duration()
    .transform((seconds) => seconds || undefined)
    .optional(),
};

/** The rules of a login by a token or by identity tokens. */
export function checkTokenLogin(
  {
    token,
    identity_token_audience: audience,
  }: { token?: string | undefined; identity_token_audience?: string | undefined },
  refuse: Refuse,
): void {
  if (token && audience) refuse("identity_token_audience", "cannot be set together with token");
  if (!token && !audience) refuse("token", "is required without identity_token_audience");
}
