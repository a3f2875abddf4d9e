import * as z from "zod";
import { ok, type Result, refuse } from "../../../lib/result.ts";
import { duration } from "../../../platform/http/fields.ts";
import { nameOf } from "../../name-template.ts";
import { isTransient, isWorthRetrying, retry } from "../../runner/saga.ts";
import type { IssueContext } from "../engine-type.ts";
import { type CloudSaga, resultOf, step } from "./calls.ts";
import type { Session, SessionRequest } from "./cloud.ts";
import type { CloudAccount } from "./config.ts";
import type { Role } from "./role.ts";

/** A session being opened. It ends by itself at the provider, so nothing of it is undone. */
export interface SessionIssue {
  readonly kind: "session";
  readonly type: "assumed_role" | "federation_token" | "session_token";
  readonly request: SessionRequest;
  /** Name of the session. */
  readonly name: string;
  /** Empty without a role to assume. */
  readonly roleArn: string;
  /** Groups whose policies are still to be read. */
  readonly groups: readonly string[];
  readonly opened: { readonly endsAt: number } | null;
}

/**
 * Opens a session.
 *
 *     groupPolicies … ──► assumeRole | getFederationToken | getSessionToken ──► done
 */
export const sessionSaga: CloudSaga<SessionIssue> = {
  next({ type, request, name, roleArn, groups, opened }) {
    if (opened) return null;
    if (groups[0] !== undefined) return step("groupPolicies", groups[0]);
    if (type === "assumed_role") return step("assumeRole", { ...request, roleArn, sessionName: name });
    return type === "federation_token"
      ? step("getFederationToken", { ...request, name })
      : step("getSessionToken", request);
  },

  onSuccess(state, { call }, value) {
    if (call !== "groupPolicies") return { ...state, opened: { endsAt: (value as Session).endsAt } };
    const { arns, documents } = resultOf(call, value);
    const { policy = "", policyArns = [] } = state.request;
    const merged = mergedDocuments([...(policy === "" ? [] : [policy]), ...documents]);
    const request = { ...state.request, policyArns: [...new Set([...policyArns, ...arns])] };
    return {
      ...state,
      request: merged === "" ? request : { ...request, policy: merged },
      groups: state.groups.slice(1),
    };
  },

  onError: (_state, _step, failure, _now, tries) =>
    isTransient(failure) && isWorthRetrying(failure, tries) ? retry(failure) : { kind: "failed" },
};

/** One document with the statements of several; empty without any. */
function mergedDocuments(documents: readonly string[]): string {
  const [only, another] = documents;
  if (only === undefined || another === undefined) return only ?? "";
  const statements = documents.flatMap((text) => (JSON.parse(text) as { Statement?: unknown }).Statement ?? []);
  return JSON.stringify({ Version: "2012-10-17", Statement: statements });
}

const text = (most: number) => z.string().max(most).optional();

/** Parameters of a request for credentials. Those about sessions have no effect on users. */
export const IssueParameters = z.object({
  ttl: duration().optional(),
  role_arn: text(2048),
  role_session_name: text(64),
  mfa_code: text(6),
});

type Asked = Pick<IssueContext<never>, "name" | "displayName" | "maxTtlMs"> & {
  readonly parameters: z.infer<typeof IssueParameters>;
  readonly account: CloudAccount;
};

const DEFAULT_SECONDS = 3_600;
const MAX_FEDERATED_NAME = 32;

/** Begins a session of a role. A requested TTL is cut at the maximum of role and mount, as upstream does. */
export function newSession(
  role: Role,
  { parameters, name, displayName, maxTtlMs, account }: Asked,
): Result<SessionIssue> {
  const type = role.credential_type as SessionIssue["type"];
  const asked = parameters.ttl || role.default_sts_ttl || DEFAULT_SECONDS;
  const arn = type === "assumed_role" ? roleArnOf(role, name, parameters.role_arn ?? "") : ok("");
  if (!arn.ok) return arn;
  const { policy_document: policy, policy_arns: policyArns, iam_groups: groups } = role;
  if (type === "federation_token" && policy === "" && !policyArns?.length && !groups?.length) {
    const rule = "must specify at least one of policy_arns or policy_document with federation_token credential_type";
    return refuse("invalid", rule);
  }
  const given = type === "assumed_role" ? sanitized(parameters.role_session_name ?? "") : "";
  const session = given === "" ? generated(account.template, { displayName, policyName: name }) : ok(given);
  if (!session.ok) return session;
  if (type === "federation_token" && session.value.length > MAX_FEDERATED_NAME) return refuse("invalid", TOO_LONG);
  const { mfa_serial_number: serial, session_tags: tags, external_id: externalId } = role;
  const limits = type === "session_token" ? {} : { policy, policyArns: policyArns ?? [] };
  return ok({
    kind: "session",
    type,
    request: {
      seconds: Math.floor(Math.min(asked * 1000, maxTtlMs) / 1000),
      ...limits,
      ...(type === "assumed_role" && { tags: tags ?? {}, externalId }),
      ...(type === "session_token" && serial !== "" && { mfa: { serial, code: parameters.mfa_code ?? "" } }),
    },
    name: session.value,
    roleArn: arn.value,
    groups: type === "session_token" ? [] : (groups ?? []),
    opened: null,
  });
}

function roleArnOf({ role_arns }: Role, name: string, asked: string): Result<string> {
  const arns = role_arns ?? [];
  const [only, another] = arns;
  if (asked === "") {
    return only !== undefined && another === undefined
      ? ok(only)
      : refuse("invalid", "did not supply a role_arn parameter and unable to determine one");
  }
  if (arns.includes(asked)) return ok(asked);
  const [arn, role] = [asked, name].map((each) => JSON.stringify(each));
  return refuse("invalid", `role_arn ${arn} not in allowed role arns for Vault role ${role}`);
}

const TOO_LONG = "the username generated by the template exceeds the STS username length limits of 32 chars";

/** The characters that the provider accepts in names of users and sessions. */
export const sanitized = (text: string): string => text.replace(/[^a-zA-Z0-9+=,.@_-]/g, "_");

function generated(
  template: string,
  { displayName, policyName }: { readonly displayName: string; readonly policyName: string },
): Result<string> {
  const fields = { Type: "STS", DisplayName: sanitized(displayName), PolicyName: sanitized(policyName) };
  const name = nameOf(template, fields);
  return !name.ok || name.value.length <= MAX_FEDERATED_NAME ? name : refuse("invalid", TOO_LONG);
}
