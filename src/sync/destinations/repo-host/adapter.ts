import * as z from "zod";
import type { Failure } from "../../../contracts/failure.ts";
import { memo } from "../../../lib/memo.ts";
import { failure, mayHaveApplied } from "../../../providers/outcome.ts";
import {
  type Answer,
  hasNextPage,
  type Refused,
  type RepoHost,
  type RepoHostConnection,
  refuseEnterpriseUrl,
  repoHostClient,
} from "../../../providers/repo-host-github/client.ts";
import { sealBox } from "../../../providers/repo-host-github/sealed-box.ts";
import { TokenCache } from "../../../providers/token-cache.ts";
import {
  type Done,
  doneBy,
  type ExternalObject,
  type Inspection,
  type Listing,
  type Put,
  remoteType,
} from "../destination-type.ts";
import { CURSOR_REFUSED, pageNumber } from "../listing-cursor.ts";
import { checkObject } from "../object-rules.ts";
import { isCautious } from "../variables.ts";
import { repoHostConnection, resolveRepoHost } from "./connection.ts";
import { description } from "./description.ts";

/**
 * "Secrets are limited to 48 KB in size" (GitHub's documentation, "Using secrets", limits); names have no stated limit.
 */
const maxValueBytes = 48 * 1024;
/** The names that GitHub takes, for `checkObject`. */
export const NAME_RULE = {
  name: /^(?!GITHUB_)[A-Z_][A-Z0-9_]{0,254}$/,
  rule: "be 1 to 255 capital letters, digits or _, not beginning with a digit or GITHUB_",
  maxBytes: maxValueBytes,
};

const keyLifeMs = 5 * 60_000;
const repositoryIdLifeMs = 60 * 60_000;

/** Tolerance between the time of change, in whole seconds, and the `Date` header, from another clock. */
const clockToleranceMs = 5000;

/** The owner of secrets, or of variables. `limit`: the most secrets it can hold (same page as the size). */
interface Place {
  of: "secrets" | "variables";
  kind: "repository" | "environment" | "organization";
  label: string;
  path: string;
  limit: number;
}

/** The inputs of a write: the public key and the access rule. */
interface Target {
  keyId: string;
  publicKey: Uint8Array<ArrayBuffer>;
  /**
   * For organizations: the repositories with access. Always sent in full, because an update without the list clears it.
   */
  access: { visibility?: string; selected_repository_ids?: number[] };
}

const targets = new TokenCache<Target & { expiresAt: number }>({ marginMs: 0 });
const repositoryIds = new TokenCache<{ id: number; expiresAt: number }>({ marginMs: 0, max: 2048 });

const KeyAnswer = memo(() => z.object({ key_id: z.string().min(1), key: z.base64() }));
const SecretAnswer = memo(() => z.object({ updated_at: z.iso.datetime({ offset: true }) }));
const CountAnswer = memo(() => z.object({ total_count: z.number() }));
const RepositoryAnswer = memo(() =>
  z.object({
    id: z.number().int(),
    archived: z.boolean().default(false),
    permissions: z.record(z.string(), z.boolean()).optional(),
  }),
);

/**
 * GitHub secrets of Actions, Dependabot or Codespaces, in a repository, one of its environments, or an organization. One
 * external object is one secret.
 *
 * Permissions: a classic token requires the scope `repo` (organization: `admin:org`), a fine-grained token Secrets: write
 * (environment: also Environments: write; organization: Secrets of the organization). An application requires the same.
 *
 * Values cannot be read and secrets carry no marker, so a secret is ours when an earlier push is recorded as successful.
 * Consequently `owned-only` refuses, and `if-not-exists` leaves, a secret of ours whose first push had an unknown outcome.
 * There are no conditional writes: a secret created between check and write is overwritten.
 */
export const repoHost = remoteType(description, repoHostConnection, {
  // Names of accounts, repositories and environments are case-insensitive.
  targets: (connection) => [`${connection.enterprise_url ?? ""}${placeOf(connection).path}`.toLowerCase()],
  resolve: resolveRepoHost,
  defaults: {
    granularity: "secret-key",
    template: {
      "secret-path": "VAULT_{{ .MountAccessor | uppercase }}_{{ .SecretPath | uppercase }}",
      "secret-key": "VAULT_{{ .MountAccessor | uppercase }}_{{ .SecretPath | uppercase }}_{{ .SecretKey | uppercase }}",
    },
  },
  naming: {
    allowed: /^[A-Za-z0-9_]$/,
    maxLength: 255,
    replacement: "_",
    adapt: (name) => name.toUpperCase().replace(/^(?=\d)/, "_"),
    collisionKey: (name) => name.toUpperCase(),
    refuse: (name) => (/^GITHUB_/i.test(name) ? "The name of a secret must not begin with GITHUB_." : null),
  },
  maxValueBytes,
  // Content is created at most about 80 times a minute (GitHub's REST API, "Rate limits", secondary ones).
  pace: { atOnce: 1, burst: 30, perMinute: 60 },
  checkSettings: ({ enterprise_url: url }, settings) => refuseEnterpriseUrl(url, settings),
  appOf: ({ app_name: name }) => name ?? null,
  reading: {
    list: (cursor, connection, context) => list(cursor, 100, connection, repoHostClient(connection, context)),
  },
  shown: ({ app_name: name }) => (name === undefined ? {} : { app_config: { app_name: name } }),

  async put(object, connection, context) {
    const wrong = checkObject(object, { noun: "secret", ...NAME_RULE });
    if (wrong !== null) return wrong;
    const client = repoHostClient(connection, context);
    if (!client.ok) return client.outcome;
    const { host } = client;
    const place = placeOf(connection);
    const { name, updatePolicy: policy } = object;

    if (policy === "if-not-exists" || (policy === "owned-only" && !object.knownToExist)) {
      const seen = await host.call("GET", `${place.path}/${name}`);
      if (seen.ok) return policy === "if-not-exists" ? { outcome: "ok", left: true } : notOwned(name);
      if (seen.status !== 404) return seen.outcome;
    }

    let target = await targetOf(host, place, connection);
    if (!target.ok) return target.status === 404 ? whyMissing(host, place, connection) : target.outcome;
    let answer = await write(host, place, object, target);
    if (!answer.ok && answer.status === 422) {
      // The key or a selected repository may have been replaced since it was read; the answer does not say so.
      const fresh = await targetOf(host, place, connection, { fresh: true });
      if (fresh.ok && !sameTarget(target, fresh)) {
        target = fresh;
        answer = await write(host, place, object, target);
      }
    }
    if (!answer.ok && mayHaveApplied(answer.outcome) && isCautious(object)) {
      answer = await write(host, place, object, target);
    }
    if (answer.ok) return written(answer, name);
    if (answer.status === 404) return whyMissing(host, place, connection);
    return answer.status === 422 ? whyRefused(host, place, name, answer) : answer.outcome;
  },

  async remove({ name, reference, ownedOnly }, connection, context) {
    if (ownedOnly && reference === null) return { outcome: "ok" };
    const client = repoHostClient(connection, context);
    if (!client.ok) return client.outcome;
    const place = placeOf(connection);
    const answer = await client.host.call("DELETE", `${place.path}/${name}`);
    if (answer.ok) return { outcome: "ok" };
    return answer.status === 404 ? proveAbsent(client.host, place, connection) : answer.outcome;
  },

  async inspect({ name, reference }, connection, context): Promise<Inspection> {
    const client = repoHostClient(connection, context);
    if (!client.ok) return client.outcome;
    const place = placeOf(connection);
    const answer = await client.host.call("GET", `${place.path}/${name}`);
    if (!answer.ok) {
      if (answer.status !== 404) return answer.outcome;
      const absent = await proveAbsent(client.host, place, connection);
      return absent.outcome === "ok" ? { outcome: "ok", state: "absent", owned: null } : absent;
    }
    const secret = SecretAnswer().safeParse(answer.body);
    if (!secret.success) return failure("external", "unreadable_answer", `The answer about ${name} cannot be read.`);
    const pushed = Date.parse(reference ?? "");
    const updated = Date.parse(secret.data.updated_at);
    // The answer to a push follows the write; a later time within the tolerance may be another writer's.
    const certain = updated > pushed + clockToleranceMs ? "changed" : updated <= pushed ? "unchanged" : "present";
    return { outcome: "ok", state: Number.isNaN(pushed) ? "present" : certain, owned: null };
  },

  async probe(connection, context) {
    const client = repoHostClient(connection, context);
    if (!client.ok) return client.outcome;
    const { host } = client;
    const place = placeOf(connection);
    const wrongApp = await host.checkApp();
    if (wrongApp !== null) return wrongApp.outcome;
    const key = await host.call("GET", `${place.path}/public-key`);
    if (!key.ok) return key.status === 404 ? whyMissing(host, place, connection) : key.outcome;
    // Only classic tokens report their scopes. A token without any can still read the key of a public repository.
    // The write permission of a fine-grained token shows at the first push.
    const scopes = key.headers.get("x-oauth-scopes")?.split(/[\s,]+/);
    const needed = place.kind === "organization" ? ["admin:org"] : ["repo", "public_repo"];
    if (scopes && !needed.some((scope) => scopes.includes(scope))) {
      return failure("client", "permission_denied", `The access token lacks the scope ${needed[0]}.`);
    }
    if (place.kind !== "organization") return probeRepository(host, connection);
    const target = await targetOf(host, place, connection, { fresh: true });
    return doneBy(target);
  },
});

/** The owner of a connection's secrets or variables. */
export function placeOf(connection: RepoHostConnection, of: Place["of"] = "secrets"): Place {
  const { organization_name: organization, environment_name: environment, application = "actions" } = connection;
  if (connection.secrets_location === "organization") {
    const path = `/orgs/${organization}/${application}/${of}`;
    return { of, kind: "organization", label: `the organization ${organization}`, path, limit: 1000 };
  }
  const repository = repositoryPath(connection);
  const label = repositoryLabel(connection);
  if (environment === undefined)
    return { of, kind: "repository", label, path: `${repository}/${application}/${of}`, limit: 100 };
  const path = `${repository}/environments/${encodeURIComponent(environment)}/${of}`;
  return { of, kind: "environment", label: `the environment ${environment} of ${label}`, path, limit: 100 };
}

const repositoryPath = ({ repository_owner: owner, repository_name: name }: RepoHostConnection) =>
  `/repos/${owner}/${name}`;

const repositoryLabel = ({ repository_owner: owner, repository_name: name }: RepoHostConnection) =>
  `the repository ${owner}/${name}`;

type Found = ({ ok: true } & Target) | (Pick<Refused, "ok" | "outcome"> & { status?: number | null });

/** The public key and access rule of the place, from the cache unless `fresh`. */
async function targetOf(
  host: RepoHost,
  place: Place,
  connection: RepoHostConnection,
  { fresh = false } = {},
): Promise<Found> {
  const { organization_visibility: visibility, selected_repository_names: names = [] } = connection;
  const cacheKey = [...host.identity, place.path, visibility, names];
  if (fresh) targets.forget(cacheKey);
  let status: number | null = null;
  const got = await targets.get(cacheKey, async () => {
    const answer = await host.call("GET", `${place.path}/public-key`);
    if (!answer.ok) {
      status = answer.status;
      return answer;
    }
    const parsed = KeyAnswer().safeParse(answer.body);
    const publicKey = parsed.success ? new Uint8Array(Buffer.from(parsed.data.key, "base64")) : new Uint8Array();
    if (!parsed.success || publicKey.length !== 32) {
      return { ok: false, outcome: failure("external", "unreadable_answer", `The key of ${place.label} is not one.`) };
    }
    const access: Target["access"] = place.kind === "organization" && visibility ? { visibility } : {};
    if (visibility === "selected") {
      const ids = await idsOf(host, connection.organization_name ?? "", names, fresh);
      if (!ids.ok) return ids;
      access.selected_repository_ids = ids.ids;
    }
    const token = { keyId: parsed.data.key_id, publicKey, access, expiresAt: Date.now() + keyLifeMs };
    return { ok: true, token };
  });
  return got.ok ? { ok: true, ...got.token } : { ...got, status };
}

/** The ids of repositories of an organization. Each id is cached, so a long list continues after a deadline. */
export async function idsOf(
  host: RepoHost,
  organization: string,
  names: readonly string[],
  fresh: boolean,
): Promise<{ ok: true; ids: number[] } | { ok: false; outcome: Failure }> {
  const ids: number[] = [];
  for (const name of names) {
    const cacheKey = [...host.identity, organization, name];
    if (fresh) repositoryIds.forget(cacheKey);
    const got = await repositoryIds.get(cacheKey, async () => {
      const label = `the repository ${organization}/${name}`;
      const answer = await host.call("GET", `/repos/${organization}/${name}`);
      if (!answer.ok) return answer.status === 404 ? { ok: false, outcome: notVisible(label) } : answer;
      const parsed = RepositoryAnswer().safeParse(answer.body);
      if (parsed.success)
        return { ok: true, token: { id: parsed.data.id, expiresAt: Date.now() + repositoryIdLifeMs } };
      return {
        ok: false,
        outcome: failure("external", "unreadable_answer", `The answer about ${label} is not readable.`),
      };
    });
    if (!got.ok) return got;
    ids.push(got.token.id);
  }
  return { ok: true, ids };
}

const sameTarget = (one: Target, other: Target) =>
  one.keyId === other.keyId && JSON.stringify(one.access) === JSON.stringify(other.access);

async function write(host: RepoHost, place: Place, { name, value }: ExternalObject, target: Target): Promise<Answer> {
  const sealed = await sealBox(new TextEncoder().encode(value), target.publicKey);
  const encrypted_value = Buffer.from(sealed).toString("base64");
  return host.call("PUT", `${place.path}/${name}`, { encrypted_value, key_id: target.keyId, ...target.access });
}

/** The outcome of a write. The reference is the provider's time of the write, for comparison by `inspect`. */
function written({ status, headers }: Extract<Answer, { ok: true }>, name: string): Put {
  if (status !== 201 && status !== 204) return unreadable(`The write of ${name}`);
  const writtenAt = Date.parse(headers.get("date") ?? "");
  return { outcome: "ok", reference: new Date(Number.isNaN(writtenAt) ? Date.now() : writtenAt).toISOString() };
}

/** The failure for an answer that may come from another server than the provider. */
const unreadable = (what: string): Failure =>
  failure("unknown", "unreadable_answer", `${what} was answered, but not as the provider does.`);

const notOwned = (name: string): Failure =>
  failure("client", "not_owned", `The secret ${name} exists already and was not written by this service.`);

const notVisible = (label: string): Failure =>
  failure("client", "not_found", `There is no ${label.replace(/^the /, "")}, or the credentials may not see it.`);

/** Explains "not found" of the place, which the provider also returns for resources hidden from the credentials. */
export async function whyMissing(host: RepoHost, place: Place, connection: RepoHostConnection): Promise<Failure> {
  if (place.kind === "organization") return notVisible(place.label);
  const repository = await host.call("GET", repositoryPath(connection));
  if (!repository.ok) return repository.status === 404 ? notVisible(repositoryLabel(connection)) : repository.outcome;
  if (place.kind === "environment") {
    return failure("client", "environment_not_found", `There is no ${place.label.replace(/^the /, "")}.`);
  }
  return failure("client", "permission_denied", `The credentials may see ${place.label}, but not its ${place.of}.`);
}

/**
 * Proves the absence of a secret after "not found": ok when the place is visible, or is a deleted environment of a
 * visible repository. An invisible repository or organization proves nothing, because its secrets may still exist.
 */
async function proveAbsent(host: RepoHost, place: Place, connection: RepoHostConnection): Promise<Done> {
  const key = await host.call("GET", `${place.path}/public-key`);
  if (key.ok) return { outcome: "ok" };
  if (key.status !== 404) return key.outcome;
  const why = await whyMissing(host, place, connection);
  return why.code === "environment_not_found" ? { outcome: "ok" } : why;
}

/** Explains a refused write. A full target has no specific error code, so its secrets are counted. */
async function whyRefused(host: RepoHost, place: Place, name: string, answer: Refused): Promise<Failure> {
  const seen = await host.call("GET", `${place.path}/${name}`);
  if (seen.ok || seen.status !== 404) return answer.outcome;
  const listed = await host.call("GET", `${place.path}?per_page=1`);
  const count = listed.ok ? CountAnswer().safeParse(listed.body).data?.total_count : undefined;
  if (count === undefined || count < place.limit) return answer.outcome;
  return failure("client", "quota_exceeded", `There are ${count} secrets in ${place.label}, which is all it can hold.`);
}

async function probeRepository(host: RepoHost, connection: RepoHostConnection): Promise<Done> {
  const label = repositoryLabel(connection);
  const answer = await host.call("GET", repositoryPath(connection));
  if (!answer.ok) return answer.status === 404 ? notVisible(label) : answer.outcome;
  const seen = RepositoryAnswer().safeParse(answer.body);
  if (!seen.success) return failure("external", "unreadable_answer", `The answer about ${label} cannot be read.`);
  const { archived, permissions } = seen.data;
  if (archived) return failure("client", "read_only", `It is archived, and so read-only: ${label}.`);
  // These permissions are the user's; an application's were granted with its token.
  const mayWrite = ["admin", "maintain", "push"].some((role) => permissions?.[role]);
  if (host.kind === "token" && permissions !== undefined && !mayWrite) {
    return failure("client", "permission_denied", `The access token's user may not write to ${label}.`);
  }
  return { outcome: "ok" };
}

const Names = memo(() => z.array(z.object({ name: z.string() })));

/** A page of the names at a place. @param cursor a page's number */
export async function list(
  cursor: string,
  size: number,
  connection: RepoHostConnection,
  client: ReturnType<typeof repoHostClient>,
  of: Place["of"] = "secrets",
): Promise<Listing> {
  if (!client.ok) return client.outcome;
  const place = placeOf(connection, of);
  const page = pageNumber(cursor);
  if (page === null) return CURSOR_REFUSED;
  const answer = await client.host.call("GET", `${place.path}?per_page=${size}&page=${page}`);
  if (!answer.ok) return answer.status === 404 ? whyMissing(client.host, place, connection) : answer.outcome;
  const parsed = z.object({ [of]: Names() }).safeParse(answer.body);
  if (!parsed.success) return failure("external", "unreadable_answer", `The list of ${of} cannot be read.`);
  const names = parsed.data[of]?.map(({ name }) => name) ?? [];
  return { outcome: "ok", names, next: hasNextPage(answer.headers) ? String(page + 1) : null };
}
