import { randomInt } from "node:crypto";
import * as z from "zod";
import { ROTATION_PERIOD_MS, VERIFICATION_TTL_MS } from "../identity/signing-keys.ts";
import { discovery } from "../identity/token.ts";
import { ORIGIN_RULE, originOf } from "../lib/origin.ts";
import { namespaceOf } from "../platform/http/caller.ts";
import { unwrap } from "../platform/http/errors.ts";
import { asDuration, duration } from "../platform/http/fields.ts";
import { parseTarget } from "../platform/http/target.ts";
import { accessControl, identityIssuer } from "../rpc/stubs.ts";
import { issuerAt, syncIssuerAt } from "../rpc/token-subjects.ts";
import { envelope, noContent } from "./server/respond.ts";
import { type Call, open, secrets } from "./server/route.ts";

/** The issuer of identity tokens (docs/guides/federation.md). */

const DISCOVERY_SECONDS = 3_600;
/** A cached key set must be refreshed before a new key signs, and before a published key expires. */
const KEYS_SECONDS = Math.min(ROTATION_PERIOD_MS, VERIFICATION_TTL_MS) / 1000;
const MAX_VERIFICATION_MS = 10 * ROTATION_PERIOD_MS;

/** A public, cacheable document without envelope. @param seconds cache lifetime */
const published = (document: object, seconds: number): Response =>
  new Response(JSON.stringify(document), {
    headers: { "Content-Type": "application/json", "Cache-Control": `max-age=${seconds}` },
  });

/** The namespace of a request, by header and path. @throws RequestError 404 when it does not exist */
async function namespaceAt(call: Call): Promise<string> {
  const { path } = parseTarget(call.request, new URL(call.request.url), "secrets");
  return unwrap(await accessControl(call.env).locate(namespaceOf(call.request.headers), path)).namespace;
}

async function publishKeys(call: Call): Promise<Response> {
  const keys = unwrap(await identityIssuer(call.env).published());
  // Randomized, so that cached copies do not expire simultaneously.
  return published({ keys }, randomInt(1, KEYS_SECONDS));
}

/** The public documents of an issuer. The issuers of mounts and of sync destinations have the same keys. */
const documentsAt = (path: string, issuerOf: typeof issuerAt) => [
  open(`GET ${path}/openid-configuration`, async (call) => {
    const [namespace, origin] = await Promise.all([namespaceAt(call), identityIssuer(call.env).origin()]);
    const issuer = issuerOf(origin ?? new URL(call.request.url).origin, namespace);
    return published(discovery(issuer), DISCOVERY_SECONDS);
  }),
  open(`GET ${path}/keys`, async (call) => {
    await namespaceAt(call);
    return publishKeys(call);
  }),
];

const ConfigBody = z.object({
  issuer: z
    .string("issuer: must be a text")
    .max(256)
    .transform((text, context) => {
      const origin = text === "" ? "" : originOf(text);
      if (origin !== null) return origin;
      context.addIssue({ code: "custom", message: ORIGIN_RULE });
      return z.NEVER;
    })
    .optional(),
});

const RotateBody = z.object({
  verification_ttl: asDuration(
    duration().refine((seconds) => seconds * 1000 <= MAX_VERIFICATION_MS, "must be at most 10 days"),
  ).optional(),
});

export const identityRoutes = [
  // The root namespace's keys, where clients of the cluster API look for them.
  open("GET /.well-known/jwks.json", publishKeys),
  ...documentsAt("/identity/oidc/plugins/.well-known", issuerAt),
  ...documentsAt("/identity/oidc/secrets-sync/.well-known", syncIssuerAt),
  secrets("GET /identity/oidc/config", { fresh: true }, async (call) =>
    envelope(call, { data: { issuer: await identityIssuer(call.env).configured() } }),
  ),
  secrets("POST /identity/oidc/config", { fresh: true, body: ConfigBody }, async (call, { issuer }) => {
    if (issuer === undefined) return noContent();
    await identityIssuer(call.env).configure(issuer);
    if (issuer === "") return noContent();
    const warnings = [
      "tokens name another issuer from now on: federated credentials at the providers must name it, too, and tokens made before may no longer be accepted",
    ];
    return envelope(call, { warnings });
  }),
  secrets(
    "POST /identity/oidc/key/default/rotate",
    { access: "sudo", fresh: true, body: RotateBody },
    async (call, { verification_ttl: seconds }) => {
      unwrap(await identityIssuer(call.env).rotate(seconds === undefined ? undefined : seconds * 1000));
      return noContent();
    },
  ),
];
