import { z } from "zod";
import { membersOf } from "../../relay/src/json-text.ts";
import { type Api, ApiError, encoded } from "./api.ts";
import { command, Failure, oneOf, table, text } from "./command.ts";
import { checkToken, connect, SERVICE_OPTIONS } from "./connect.ts";
import { ENVIRONMENT } from "./environment.ts";
import { type Data, objectText, plain } from "./kv/store.ts";

/** Credentials that an engine issues for a time. */

export interface Issued {
  readonly leaseId: string;
  readonly seconds: number;
  readonly isRenewable: boolean;
  readonly data: Data;
}

const answerSchema = z.object({ lease_id: z.string(), lease_duration: z.number(), renewable: z.boolean() });

/** @throws ApiError, Failure for an answer without data */
export async function issue(api: Api, path: string): Promise<Issued> {
  const { text: answer } = await api.call("GET", encoded(path));
  const { lease_id, lease_duration, renewable } = answerSchema.parse(JSON.parse(answer));
  const data = membersOf(answer).get("data") ?? "null";
  if (data === "null") throw new Failure(`${path}: the answer has no values`);
  return { leaseId: lease_id, seconds: lease_duration, isRenewable: renewable, data: membersOf(data) };
}

/** `azure/reader` is `azure/creds/reader`; a path with the kind of credentials stays as it is. */
export async function credentialsPath(api: Api, path: string): Promise<string> {
  const cut = path.replace(/^\/+|\/+$/g, "");
  const fields = await api.fields(`sys/internal/ui/mounts/${encoded(cut)}`).catch((failure: unknown) => {
    if (failure instanceof ApiError && failure.status === 403) return null;
    throw failure;
  });
  const found = z.object({ path: z.string(), type: z.string() }).safeParse(fields);
  if (!found.success) await checkToken(api);
  if (!found.success) {
    const mounts = await engineMounts(api);
    const others = mounts.length === 0 ? "" : `: those with credentials are ${mounts.join(", ")}`;
    throw new Failure(`${cut}: no mount that the token may use has this path${others}`);
  }
  const { path: mount, type } = found.data;
  if (type === "kv" || type === "generic")
    throw new Failure(`${mount} is a mount of KV: \`sallyport kv get\` reads it`);
  const rest = cut.slice(mount.length);
  if (rest === "") {
    const roles = await api.list(`${encoded(mount)}roles/`).catch(() => []);
    const known = roles.length === 0 ? "" : `: it has ${roles.slice(0, MOST_ROLES).join(", ")}`;
    throw new Failure(`${cut}: name a role, such as ${mount}${roles[0] ?? "ROLE"}${known}`);
  }
  return rest.includes("/") ? cut : `${mount}creds/${rest}`;
}

const MOST_ROLES = 20;

/** Mounts of a service's own data issue nothing. */
const WITHOUT_CREDENTIALS: ReadonlySet<string> = new Set(["kv", "generic", "cubbyhole", "identity", "system"]);

/** The mounts with credentials that the token may use. */
async function engineMounts(api: Api): Promise<string[]> {
  const fields = (await api.fields("sys/internal/ui/mounts")) ?? {};
  const mounts = z
    .record(z.string(), z.object({ type: z.string() }))
    .catch({})
    .parse(fields["secret"]);
  return Object.entries(mounts)
    .filter(([, { type }]) => !WITHOUT_CREDENTIALS.has(type))
    .map(([path]) => path);
}

/** Names that the providers' own programs read. */
const VARIABLES: Readonly<Record<string, string>> = {
  access_key: "AWS_ACCESS_KEY_ID",
  secret_key: "AWS_SECRET_ACCESS_KEY",
  session_token: "AWS_SESSION_TOKEN",
  client_id: "AZURE_CLIENT_ID",
  client_secret: "AZURE_CLIENT_SECRET",
};

/** The environment variable of a value of issued credentials. */
export const variableOf = (key: string): string => VARIABLES[key] ?? key.toUpperCase().replace(/\W/g, "_");

const shellQuoted = (value: string): string => `'${value.replaceAll("'", `'\\''`)}'`;

export const creds = command({
  words: ["creds"],
  summary: "issue credentials of a role",
  about: `Issues credentials of a role at a mount of AWS, Azure, Google Cloud or another engine. They end with their lease:
\`sallyport lease renew\` and \`sallyport lease revoke\` extend and end it.`,
  args: [{ name: "PATH", help: "mount and role, such as azure/reader, or a whole path such as aws/sts/deploy" }],
  options: { format: text("FORMAT", "table, or env: lines for `eval` in a shell (default table)"), ...SERVICE_OPTIONS },
  notes: ENVIRONMENT,
  run: async ({ values, args: [path = ""] }, io) => {
    const format = oneOf("--format", values.format ?? "table", ["table", "env"]);
    const api = connect(values, io);
    const { leaseId, seconds, isRenewable, data } = await issue(api, await credentialsPath(api, path));
    const values_ = [...data].filter(([, value]) => value !== "null");
    if (values.json)
      io.out(
        `{"lease_id":${JSON.stringify(leaseId)},"lease_duration":${seconds},"renewable":${isRenewable},"data":${objectText(data)}}`,
      );
    else if (format === "env")
      for (const [key, value] of values_) io.out(`export ${variableOf(key)}=${shellQuoted(plain(value))}`);
    else for (const line of table(values_.map(([key, value]) => [key, plain(value)]))) io.out(line);
    if (leaseId !== "") io.note(`Lease ${leaseId}, for ${seconds} s.`);
    return 0;
  },
});

const ended = (lease: string): Failure => new Failure(`${lease}: no such lease, or it has ended already`);

const LEASE = { name: "LEASE", help: "the lease id, as `sallyport creds` prints it" };

export const leaseRenew = command({
  words: ["lease", "renew"],
  summary: "extend issued credentials",
  about: "Extends the lease of issued credentials, within the limits of their role.",
  args: [LEASE],
  options: { increment: text("TIME", "how long from now, such as 1h (default: the role's)"), ...SERVICE_OPTIONS },
  notes: ENVIRONMENT,
  run: async ({ values, args: [lease = ""] }, io) => {
    const { seconds } = await renew(connect(values, io), lease, values.increment).catch((failure: unknown) => {
      if (failure instanceof ApiError && /^lease (?:not found|expired)/.test(failure.reason)) throw ended(lease);
      throw failure;
    });
    if (values.json) io.out(JSON.stringify({ lease_id: lease, lease_duration: seconds }));
    else io.out(`${lease}: for ${seconds} s`);
    return 0;
  },
});

/** @throws ApiError */
export async function renew(api: Api, leaseId: string, increment?: string): Promise<{ readonly seconds: number }> {
  const body = JSON.stringify({ lease_id: leaseId, ...(increment !== undefined && { increment }) });
  const { text: answer } = await api.call("POST", "sys/leases/renew", { body });
  return { seconds: answerSchema.parse(JSON.parse(answer)).lease_duration };
}

export const leaseRevoke = command({
  words: ["lease", "revoke"],
  summary: "end issued credentials now",
  about: "Ends the lease of issued credentials, and waits until they are removed at the provider.",
  args: [LEASE],
  options: SERVICE_OPTIONS,
  notes: ENVIRONMENT,
  run: async ({ values, args: [lease = ""] }, io) => {
    const api = connect(values, io);
    const isKnown = await hasLease(api, lease);
    if (isKnown === false) throw ended(lease);
    const { text: answer } = await api.call("PUT", "sys/leases/revoke", {
      body: JSON.stringify({ lease_id: lease, sync: true }),
    });
    const { warnings } = warningsSchema.parse(answer === "" ? {} : JSON.parse(answer));
    const isEnded = isKnown === true && warnings.length === 0;
    if (values.json) io.out(JSON.stringify({ lease_id: lease, revoked: isEnded, ...(!isEnded && { warnings }) }));
    else if (isKnown === null) io.out(`${lease}: ended, if there was such a lease: the token may not look it up`);
    else io.out(isEnded ? `${lease}: ended` : `${lease}: ends later: ${warnings.join("; ")}`);
    return 0;
  },
});

const warningsSchema = z.object({ warnings: z.array(z.string()).nullish() }).transform(({ warnings }) => ({
  warnings: warnings ?? [],
}));

/** Whether there is a lease: its revocation is answered alike without one. Null without the right to look it up. */
async function hasLease(api: Api, leaseId: string): Promise<boolean | null> {
  const { status } = await api.call("POST", "sys/leases/lookup", {
    body: JSON.stringify({ lease_id: leaseId }),
    accept: [400, 403],
  });
  return status === 403 ? null : status !== 400;
}

/** Begins the end of credentials. */
export const revoke = (api: Api, leaseId: string): Promise<void> =>
  api.write("sys/leases/revoke", { lease_id: leaseId }, "PUT");
