import * as z from "zod";
import type { Failure } from "../../../contracts/failure.ts";
import { crc32c } from "../../../lib/crc32c.ts";
import { memo } from "../../../lib/memo.ts";
import { unreadable } from "../../../providers/cloud-c-gcp/client.ts";
import type { CloudCConnection } from "../../../providers/cloud-c-gcp/connection.ts";
import type { CloudCFailure } from "../../../providers/cloud-c-gcp/errors.ts";
import type { CallContext } from "../destination-type.ts";
import { secretManager } from "./client.ts";
import { replicationOf } from "./connection.ts";

/** Statuses of a write whose etag is outdated: AIP-154, and its wording before 2021. */
export const conflicts: readonly (string | null)[] = ["ABORTED", "FAILED_PRECONDITION"];

/** The annotation on secrets created by this service, with the intent that created them. */
export const intentAnnotation = "sallyport-intent";

/** A version of a secret. The etag distinguishes it from the same number in a recreated secret. */
export interface Version {
  /** Decimal, from 1. */
  number: string;
  etag: string;
}

/**
 * Versions that a push of unknown outcome may have added: numbers above `after`, created since `since` (ms since 1970).
 */
export interface Owed {
  readonly after: string;
  readonly since: number;
}

/** A reference's content: the version of the last push, followed by older versions of ours not destroyed yet. */
interface Reference {
  readonly versions: readonly Version[];
  readonly owed: Owed | null;
}

const number = memo(() => z.string().regex(/^\d{1,18}$/));
const Versions = memo(() =>
  z
    .array(z.tuple([number(), z.string()]))
    .transform((given) => given.map(([number, etag]): Version => ({ number, etag }))),
);
/** Stored as the list alone unless versions are still to be destroyed. */
const StoredReference = memo(() =>
  z.union([
    Versions().transform((versions): Reference => ({ versions, owed: null })),
    z.object({ versions: Versions(), owed: z.object({ after: number(), since: z.number() }) }),
  ]),
);

export function readReference(reference: string | null): Reference {
  try {
    return StoredReference().safeParse(JSON.parse(reference ?? "[]")).data ?? { versions: [], owed: null };
  } catch {
    return { versions: [], owed: null };
  }
}

/** Writes a reference of at most 512 characters, about fifteen versions; the oldest are dropped. */
export function referenceTo(versions: readonly Version[], owed: Owed | null = null): string {
  const kept = versions.map(({ number, etag }) => [number, etag]);
  const text = () => JSON.stringify(owed === null ? kept : { versions: kept, owed });
  while (kept.length > 1 && text().length > 512) kept.pop();
  return text();
}

/**
 * The versions to search for before `newest`, null for none.
 * @param unsureSince start of the first push of unknown outcome since the reference was written, null for none
 */
export function owedBy({ versions, owed }: Reference, unsureSince: number | null, newest: Version): Owed | null {
  if (owed === null && unsureSince === null) return null;
  const after = owed?.after ?? versions[0]?.number ?? "0";
  const since = Math.min(owed?.since ?? Number.POSITIVE_INFINITY, unsureSince ?? Number.POSITIVE_INFINITY);
  // Numbers restart when the secret is created again.
  return { after: Number(newest.number) <= Number(after) ? "0" : after, since };
}

/** Tolerance for the provider's clock; a larger difference makes assertions fail. */
const CLOCK_MS = 5 * 60_000;
/** Bounds of the search for lost versions, newest first. */
const pageSize = 100;
const maxPages = 20;

const Secret = memo(() =>
  z.object({
    labels: z.record(z.string(), z.string()).default({}),
    annotations: z.record(z.string(), z.string()).default({}),
    etag: z.string().max(64).default(""),
  }),
);

const SecretVersion = memo(() => z.object({ name: z.string(), etag: z.string().max(64).default("") }));

const ListedVersions = memo(() =>
  z.object({
    versions: z
      .array(SecretVersion().extend({ state: z.string().default(""), createTime: z.iso.datetime({ offset: true }) }))
      .default([]),
    nextPageToken: z.string().default(""),
  }),
);

/** The requests for one secret. Each is sent once. */
export function remoteSecret(name: string, details: CloudCConnection, context: CallContext) {
  const { call } = secretManager(details, context);
  const path = `secrets/${name}`;
  // Answers name the project by number, even when the request used its id.
  const versionName = new RegExp(`^projects/[^/]+/secrets/${name}/versions/(\\d{1,18})$`);
  const versionOf = (body: Record<string, unknown>): Version | null => {
    const { data } = SecretVersion().safeParse(body);
    const number = versionName.exec(data?.name ?? "")?.[1];
    return data === undefined || number === undefined ? null : { number, etag: data.etag };
  };
  const notUnderstood = (outcome: Failure): CloudCFailure => ({ ok: false, status: null, outcome });

  return {
    create: (labels: Record<string, string>, intent: string) =>
      call("CreateSecret", "POST", `secrets?secretId=${name}`, {
        replication: replicationOf(details),
        labels,
        annotations: { [intentAnnotation]: intent },
      }),

    async get() {
      const answer = await call("GetSecret", "GET", path);
      if (!answer.ok) return answer;
      const { data } = Secret().safeParse(answer.body);
      return data === undefined ? notUnderstood(unreadable("GetSecret", "external")) : { ok: true as const, ...data };
    },

    relabel: (labels: Record<string, string>, etag: string) =>
      call("UpdateSecret", "PATCH", `${path}?updateMask=labels`, { labels, ...(etag === "" ? {} : { etag }) }),

    async add(value: string) {
      const data = Buffer.from(value);
      const payload = { data: data.toString("base64"), dataCrc32c: String(crc32c(data)) };
      const answer = await call("AddSecretVersion", "POST", `${path}:addVersion`, { payload });
      if (!answer.ok) return answer;
      const version = versionOf(answer.body);
      return version ? { ok: true as const, version } : notUnderstood(unreadable("AddSecretVersion", "unknown"));
    },

    async newest() {
      const answer = await call("GetSecretVersion", "GET", `${path}/versions/latest`);
      if (!answer.ok) return answer;
      const version = versionOf(answer.body);
      return version ? { ok: true as const, version } : notUnderstood(unreadable("GetSecretVersion", "external"));
    },

    /** Enabled versions before `newest` that a lost push may have added; a failure when they cannot be listed now. */
    async lost({ after, since }: Owed, newest: Version): Promise<readonly Version[] | Failure> {
      const found: Version[] = [];
      let token = "";
      for (let page = 0; page < maxPages; page++) {
        const query = `pageSize=${pageSize}${token === "" ? "" : `&pageToken=${encodeURIComponent(token)}`}`;
        const answer = await call("ListSecretVersions", "GET", `${path}/versions?${query}`);
        if (!answer.ok) return answer.outcome;
        const listed = ListedVersions().safeParse(answer.body).data;
        if (listed === undefined) return unreadable("ListSecretVersions", "external");
        for (const one of listed.versions) {
          const version = versionOf(one);
          if (version === null) return unreadable("ListSecretVersions", "external");
          const isOlder = Number(version.number) < Number(newest.number);
          if (Number(version.number) <= Number(after) || Date.parse(one.createTime) < since - CLOCK_MS) return found;
          if (isOlder && one.state === "ENABLED") found.push(version);
        }
        token = listed.nextPageToken;
        if (token === "") break;
      }
      return found;
    },

    /** Destroys versions. @returns those not destroyed yet, and the failure */
    async destroy(versions: readonly Version[]): Promise<{ left: readonly Version[]; failure: Failure | null }> {
      for (const [at, { number, etag }] of versions.entries()) {
        const condition = etag === "" ? {} : { etag };
        const answer = await call("DestroySecretVersion", "POST", `${path}/versions/${number}:destroy`, condition);
        // Deleted, destroyed already, or replaced by a version of another secret: the destruction is complete.
        if (answer.ok || answer.status === "NOT_FOUND" || conflicts.includes(answer.status)) continue;
        return { left: versions.slice(at), failure: answer.outcome };
      }
      return { left: [], failure: null };
    },

    delete: (etag: string | null) =>
      call("DeleteSecret", "DELETE", etag ? `${path}?etag=${encodeURIComponent(etag)}` : path),
  };
}
