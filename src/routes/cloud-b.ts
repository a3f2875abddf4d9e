import type * as z from "zod";
import { wordMountType, wordRole } from "../compat/cloud-b-names.ts";
import { ConfigBody } from "../engine/config.ts";
import { performJob, performJobs, probe, unfinished } from "../engine/perform.ts";
import { ROLE_NAME, RoleBody } from "../engine/role.ts";
import type { JobEnd, Started } from "../engine/turn.ts";
import { badRequest, notFound, RequestError, refusalError, unwrap } from "../http/errors.ts";
import { envelope, keyList, noContent } from "../http/respond.ts";
import { type AuthorisedCall, secrets } from "../http/route.ts";
import { homeOf } from "../identity/assertion.ts";
import { credentialEngine } from "../objects/stubs.ts";

/** Routes of a cloud-b mount, relative to it (contract: credentials-engine 2). */

/** Making credentials or a role takes as long as its own deadline allows, and a little for the answer. */
const REQUEST_MS = 88_000;
/** A rotation that is durable is answered; seeing the new secret work may take minutes. */
const ROTATION_MS = 25_000;
const REMOVAL_MS = 30_000;
const BEHIND_MS = 25_000;
const LONGEST_KEY = 256;

const mountType = (call: AuthorisedCall): string => wordMountType(call.dialect, "cloud-b");
const uuidOf = (call: AuthorisedCall): string => call.grant.mount?.uuid ?? "";
const engine = (call: AuthorisedCall) => credentialEngine(call.env, uuidOf(call));

/** A role's name as it is stored. What cannot be one is no path of ours. */
function roleName(call: AuthorisedCall): string {
  const name = (call.params["name"] ?? "").toLowerCase();
  if (!ROLE_NAME.test(name)) throw notFound("unsupported path");
  return name;
}

/** The end of what a request has begun; a refusal becomes its answer, and what is left to clean up begins behind it. */
async function ended(
  call: AuthorisedCall,
  started: Started,
  budgetMs: number,
): Promise<Extract<JobEnd, { ok: true }> | null> {
  const end = await performJob(call.env, uuidOf(call), started, budgetMs);
  // A failure loses nothing: the doorbell and the alarm come back to it.
  const behind = () => performJobs(call.env, uuidOf(call), { budgetMs: BEHIND_MS }).catch(() => undefined);
  if (end === null || !end.ok || started.wanted.kind === "rotation") call.exec.waitUntil(behind());
  if (end && !end.ok) throw refusalError(end);
  return end;
}

/** What the caller calls this request, so that repeating it gives the same lease; null when nothing. */
function repeatKey(call: AuthorisedCall): string | null {
  const { headers } = call.request;
  const key = headers.get("X-Orch-Idempotency-Key") || headers.get("Idempotency-Key") || null;
  if (key !== null && key.length > LONGEST_KEY) {
    throw badRequest(`Idempotency-Key: the header is longer than ${LONGEST_KEY} characters`);
  }
  return key;
}

async function credentials(call: AuthorisedCall): Promise<Response> {
  // What is made for a request without an answer's body would be a secret that nobody knows.
  if (call.request.method === "HEAD") throw new RequestError(405, "unsupported operation", { Allow: "GET, OPTIONS" });
  const began = Date.now();
  const { mount, identity } = call.grant;
  const ttls = mount?.config ?? { default_lease_ttl: 0, max_lease_ttl: 0 };
  const ask = { role: roleName(call), token: identity.accessor, key: repeatKey(call), mount: ttls };
  const end = await ended(call, unwrap(await engine(call).issue(ask)), REQUEST_MS);
  if (!end?.issued) throw refusalError(unfinished("the request"));
  const { issued, warnings } = end;
  const verify = /^(1|t|true)$/i.test(call.query.get("verify") ?? "");
  const probed = verify
    ? await probe(call.env, unwrap(await engine(call).account()), issued, REQUEST_MS - (Date.now() - began))
    : [];
  return envelope(call, {
    data: { client_id: issued.clientId, client_secret: issued.clientSecret },
    lease: { id: `${mount?.path ?? ""}${issued.leaseId}`, ttl: issued.ttl, renewable: issued.renewable },
    warnings: [...warnings, ...probed],
    mountType: mountType(call),
  });
}

export const cloudBRoutes = [
  secrets({
    verb: "GET",
    path: "/config",
    handle: async (call) => envelope(call, { data: unwrap(await engine(call).config()), mountType: mountType(call) }),
  }),
  secrets<z.infer<typeof ConfigBody>>({
    verb: "POST",
    path: "/config",
    fresh: true,
    creates: true,
    body: ConfigBody,
    handle: async (call, body) => {
      const { mount } = call.grant;
      const home = mount && body.identity_token_audience ? await homeOf(call.env, mount, call.request.url) : null;
      unwrap(await engine(call).setConfig(body, call.dialect === "neutral", home));
      return noContent();
    },
  }),
  secrets({
    verb: "DELETE",
    path: "/config",
    fresh: true,
    handle: async (call) => {
      unwrap(await engine(call).deleteConfig());
      return noContent();
    },
  }),
  secrets({
    verb: "POST",
    path: "/rotate-root",
    fresh: true,
    handle: async (call) => {
      const end = await ended(call, unwrap(await engine(call).rotateRoot()), ROTATION_MS);
      const warnings = end?.warnings ?? ["the new secret is made and comes into use as soon as it works everywhere"];
      return warnings.length === 0 ? noContent() : envelope(call, { warnings, mountType: mountType(call) });
    },
  }),
  secrets({
    verb: "LIST",
    path: "/roles",
    handle: async (call) => {
      const keys: string[] = [];
      for (let page = await engine(call).roleNames(""); page.length > 0; ) {
        keys.push(...page);
        page = await engine(call).roleNames(keys.at(-1) ?? "");
      }
      return keyList(call, keys, {}, mountType(call));
    },
  }),
  secrets({
    verb: "GET",
    path: "/roles/:name",
    handle: async (call) => {
      const role = unwrap(await engine(call).role(roleName(call)));
      return envelope(call, { data: wordRole(call.dialect, role), mountType: mountType(call) });
    },
  }),
  secrets<z.infer<typeof RoleBody>>({
    verb: "POST",
    path: "/roles/:name",
    fresh: true,
    creates: true,
    body: RoleBody,
    handle: async (call, body) => {
      const started = unwrap(await engine(call).writeRole(roleName(call), body, call.dialect));
      if ((await ended(call, started, REQUEST_MS)) === null) throw refusalError(unfinished("the role"));
      return noContent();
    },
  }),
  secrets({
    verb: "DELETE",
    path: "/roles/:name",
    fresh: true,
    handle: async (call) => {
      const removal = unwrap(await engine(call).deleteRole(roleName(call)));
      if (!removal) return noContent();
      const end = await performJob(call.env, uuidOf(call), removal, REMOVAL_MS);
      if (end?.ok) return noContent();
      const because = end === null ? "" : `: ${end.message}`;
      const warnings = [`the role is deleted; removing its application is tried again until it succeeds${because}`];
      return envelope(call, { warnings, mountType: mountType(call) });
    },
  }),
  secrets({ verb: "GET", path: "/creds/:name", handle: credentials }),
];
