import * as z from "zod";
import type { CloudCode, CloudFailure, CloudResult } from "../../../contracts/cloud-calls.ts";
import { tryParseJson } from "../../../lib/json.ts";
import { memo } from "../../../lib/memo.ts";
import { type Caller, tokenOfKey } from "../../../providers/cloud-c-gcp/access-token.ts";
import { type CloudCReply, type CloudCRequest, callCloudC } from "../../../providers/cloud-c-gcp/client.ts";
import { serviceAccountKey } from "../../../providers/cloud-c-gcp/key.ts";
import type { Cloud, CloudAccount } from "./cloud.ts";
import { changedPolicy, parsedPolicy } from "./policy.ts";
import { addressOf, policyRead, policyWrite } from "./resources.ts";

/** The clients of Google's services for the engine. Each call is sent once, except a policy that others change meanwhile. */

const Email = z.string().regex(/^[^\s@/]+@[^\s@/]+$/);
const Moment = z
  .string()
  .transform((text) => Date.parse(text))
  .refine((time) => !Number.isNaN(time));

const Account = memo(() =>
  z
    .object({ email: Email, projectId: z.string().min(1) })
    .transform(({ email, projectId: project }) => ({ email, project })),
);

/** `projects/P/serviceAccounts/E/keys/ID`. */
const KeyName = z
  .string()
  .regex(/\/keys\/[\w-]+$/)
  .transform((name) => name.slice(name.lastIndexOf("/") + 1));

const Key = memo(() =>
  z.object({ name: KeyName, validAfterTime: Moment }).transform(({ name: id, validAfterTime: validAfter }) => ({
    id,
    validAfter,
  })),
);
const Keys = memo(() => z.object({ keys: z.array(Key()).default([]) }));
const MadeKey = memo(() =>
  z
    .object({
      name: KeyName,
      validAfterTime: Moment,
      validBeforeTime: Moment,
      privateKeyData: z.string().regex(/^[A-Za-z0-9+/=]+$/),
    })
    .transform(({ name: id, validAfterTime: validAfter, validBeforeTime: validBefore, privateKeyData }) => ({
      id,
      validAfter,
      validBefore,
      privateKeyData,
    })),
);
const Token = memo(() =>
  z
    .object({ accessToken: z.string().min(1), expireTime: Moment })
    .transform(({ accessToken: token, expireTime: expiresAt }) => ({ token, expiresAt })),
);
const nothing = memo(() => z.unknown().transform(() => null));

/** Attempts at a policy that another caller changes at the same time. */
const POLICY_TRIES = 6;

/** The client of the engine. Calls share the deadline of `caller.send`. */
export function cloudC({ email: own, credentials }: CloudAccount, caller: Caller): Cloud {
  const { settings } = caller;
  const connection = credentials ? { credentials } : { service_account_email: own };
  const iam = addressOf("iam.googleapis.com", settings);
  const tokens = addressOf("iamcredentials.googleapis.com", settings);
  const send = (request: CloudCRequest): Promise<CloudCReply> => callCloudC(connection, caller, request);

  async function call<T>(
    operation: string,
    method: CloudCRequest["method"],
    url: string,
    answer: z.ZodType<T>,
    more: Pick<CloudCRequest, "body" | "reads"> = {},
  ): Promise<CloudResult<T>> {
    const request = { operation, method, url, ...more };
    const reply = await send(request);
    return reply.ok ? read(request, answer, reply.body) : { ok: false, failure: failureOf(request, reply) };
  }

  const keys = (email: string, id = "") => `${accounts(email)}/keys${id === "" ? "" : `/${part(id)}`}`;
  const accounts = (email: string) => `${iam}/v1/projects/-/serviceAccounts/${part(email)}`;

  return {
    getServiceAccount: (email) => call("GetServiceAccount", "GET", accounts(email), Account()),
    createServiceAccount({ project, accountId, displayName, description }) {
      const url = `${iam}/v1/projects/${part(project)}/serviceAccounts`;
      const body = { accountId, serviceAccount: { displayName, description } };
      return call("CreateServiceAccount", "POST", url, Account(), { body });
    },
    deleteServiceAccount: (email) => call("DeleteServiceAccount", "DELETE", accounts(email), nothing()),
    createKey(email, { algorithm, type }) {
      const body = { keyAlgorithm: algorithm, privateKeyType: type };
      return call("CreateServiceAccountKey", "POST", keys(email), MadeKey(), { body });
    },
    getKey: (email, id) => call("GetServiceAccountKey", "GET", keys(email, id), nothing()),
    async listKeys(email) {
      const url = `${keys(email)}?keyTypes=USER_MANAGED`;
      const request = { operation: "ListServiceAccountKeys", method: "GET", url } as const;
      const reply = await send(request);
      if (!reply.ok) return { ok: false, failure: failureOf(request, reply) };
      const listed = read(request, Keys(), reply.body);
      return listed.ok ? { ok: true, value: { at: reply.date ?? Date.now(), keys: listed.value.keys } } : listed;
    },
    deleteKey: (email, id) => call("DeleteServiceAccountKey", "DELETE", keys(email, id), nothing()),
    disableKey: (email, id) =>
      call("DisableServiceAccountKey", "POST", `${keys(email, id)}:disable`, nothing(), { body: {} }),
    async changePolicy(resource, add, remove) {
      for (let tries = 1; ; tries++) {
        const reading = { operation: "GetIamPolicy", ...policyRead(resource, settings), reads: true } as CloudCRequest;
        const found = await send(reading);
        if (!found.ok) return { ok: false, failure: failureOf(reading, found) };
        const policy = parsedPolicy(found.body);
        if (!policy) return { ok: false, failure: unreadable(reading) };
        const changed = changedPolicy(policy, add, remove);
        if (!changed) return { ok: true, value: null };
        const writing = { operation: "SetIamPolicy", ...policyWrite(resource, changed, settings) } as CloudCRequest;
        const set = await send(writing);
        if (set.ok) return { ok: true, value: null };
        if (!isStale(set) || tries >= POLICY_TRIES) return { ok: false, failure: failureOf(writing, set) };
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 100 * 2 ** tries));
      }
    },
    generateAccessToken(email, scopes, seconds) {
      const url = `${tokens}/v1/projects/-/serviceAccounts/${part(email)}:generateAccessToken`;
      const body = { scope: scopes, lifetime: `${seconds}s` };
      return call("GenerateAccessToken", "POST", url, Token(), { body, reads: true });
    },
    async login(privateKeyData) {
      const operation = { operation: "Obtaining an access token", method: "GET", url: "" } as const;
      const file = serviceAccountKey().safeParse(tryParseJson(Buffer.from(privateKeyData, "base64").toString()) ?? "");
      if (!file.success) return { ok: false, failure: unreadable(operation) };
      const token = await tokenOfKey(file.data, settings, caller.send);
      if (token.ok) return { ok: true, value: null };
      return {
        ok: false,
        failure: failureOf(operation, { ...token, status: null, sent: true, http: null }),
      };
    },
  };
}

const part = (text: string): string => encodeURIComponent(text).replaceAll("%40", "@").replaceAll("%3A", ":");

/** Whether another caller has changed the policy since it was read: an old etag. */
const isStale = (reply: Extract<CloudCReply, { ok: false }>): boolean =>
  reply.status === "ABORTED" || reply.http === 409 || reply.http === 412;

function read<T>(request: CloudCRequest, answer: z.ZodType<T>, body: unknown): CloudResult<T> {
  const parsed = answer.safeParse(body);
  return parsed.success ? { ok: true, value: parsed.data } : { ok: false, failure: unreadable(request) };
}

const changesNothing = ({ method, reads }: CloudCRequest): boolean => method === "GET" || reads === true;

const unreadable = (request: CloudCRequest): CloudFailure => ({
  outcome: changesNothing(request) ? "external" : "unknown",
  code: "unreadable_answer",
  message: `${request.operation} was answered, but not as the service answers.`,
  status: 200,
  providerCode: "",
});

/** Codes of the provider's failures that have another name for engines. */
const CODES: Readonly<Record<string, CloudCode>> = {
  account_disabled: "auth_failed",
  credentials_missing: "misconfigured",
  token_uri_refused: "misconfigured",
  invalid_url: "misconfigured",
  insecure_url: "misconfigured",
  redirect_refused: "misconfigured",
  answer_too_large: "unreadable_answer",
  precondition_failed: "limit_reached",
};
const KEPT: ReadonlySet<string> = new Set<CloudCode>([
  "auth_failed",
  "permission_denied",
  "not_found",
  "already_exists",
  "contended",
  "throttled",
  "provider_unavailable",
  "network_error",
  "deadline_exceeded",
  "unreadable_answer",
]);

/** Advice for refusals that an operator can end. */
const ADVICE: Readonly<Record<string, string>> = {
  "GenerateAccessToken permission_denied":
    " Grant the engine's service account roles/iam.serviceAccountTokenCreator on the account.",
  "GenerateAccessToken refused":
    " A life above an hour needs the organisation policy constraints/iam.allowServiceAccountCredentialLifetimeExtension.",
  "CreateServiceAccountKey limit_reached": " The account has its ten keys, or an organisation policy forbids keys.",
};

/** The failure of a call. A change that the service failed to answer well may have been applied. */
function failureOf(request: CloudCRequest, reply: Extract<CloudCReply, { ok: false }>): CloudFailure {
  const { outcome: given, code: named, message: text, retryAfterMs } = reply.outcome;
  const isWrite = reply.sent && !changesNothing(request);
  // A write may have been applied before a redirect, too.
  const isRedirected = isWrite && named === "redirect_refused";
  const known: CloudCode = KEPT.has(named) ? (named as CloudCode) : (CODES[named] ?? "refused");
  const code = isRedirected ? "unreadable_answer" : known;
  const isUnsure = isRedirected || (isWrite && code === "provider_unavailable");
  return {
    outcome: isUnsure ? "unknown" : given,
    code,
    message: text + (ADVICE[`${request.operation} ${code}`] ?? ""),
    status: reply.http,
    providerCode: reply.status ?? "",
    ...(typeof retryAfterMs === "number" && { retryAfterMs }),
  };
}
