import * as z from "zod";
import { ok, type Result, refuse } from "../../../lib/result.ts";
import { duration, flag } from "../../../platform/http/fields.ts";
import type { Assumed } from "./cloud.ts";

/** A stored static role: a user that others have made, with a key of ours that is replaced on time. */
export interface StaticRole {
  readonly kind: "static";
  readonly name: string;
  readonly username: string;
  /** The provider's own id of the user, which a later user of the same name does not have; empty: not looked up yet. */
  readonly id: string;
  /** Seconds. */
  readonly rotation_period: number;
  readonly assume_role_arn: string;
  readonly assume_role_session_name: string;
  readonly external_id: string;
  /** Whether a key that others have made may be deleted to make room; absent in roles of older versions: it may not. */
  readonly adopt_oldest_key?: boolean;
  /** Ids of our key, and of the one before, which works for one more period; empty without one. */
  readonly key: string;
  readonly previous: string;
  /** Time of the last rotation, ms since 1970. */
  readonly rotatedAt: number;
}

const text = (most: number) => z.string().max(most).optional();

/** Body of `POST static-roles/:name`. Absent fields keep their values. */
export const StaticBody = z.object({
  username: text(64),
  rotation_period: duration().optional(),
  assume_role_arn: text(2048),
  assume_role_session_name: text(64),
  external_id: text(1224),
  adopt_oldest_key: flag().optional(),
});
export type StaticBody = z.infer<typeof StaticBody>;

const MIN_PERIOD = 60;
const ROLE_ARN = /^arn:aws[a-z-]*:iam::\d{12}:role\/[\w+=,.@/-]+$/;

/** The stored name of a static role begins with its path. */
export const isStaticName = (name: string): boolean => name.startsWith("static-roles/");

export const isStatic = (role: object): role is StaticRole => "kind" in role && role.kind === "static";

/** Merges a body into a role. Texts are upstream's. @param name without the beginning of its kind */
export function draftStatic(name: string, before: StaticRole | null, body: StaticBody): Result<StaticRole> {
  const username = body.username ?? before?.username ?? "";
  const period = body.rotation_period ?? before?.rotation_period;
  if (username === "") return refuse("invalid", 'missing "username" parameter');
  if (!/^[\w+=,.@-]{1,64}$/.test(username)) return refuse("invalid", "username: must be the name of an IAM user");
  if (period === undefined) return refuse("invalid", 'missing "rotation_period" parameter');
  if (period < MIN_PERIOD) {
    return refuse("invalid", "role rotation period out of range: must be greater than 60.00 seconds");
  }
  const arn = body.assume_role_arn ?? before?.assume_role_arn ?? "";
  const session = body.assume_role_session_name ?? before?.assume_role_session_name ?? "";
  const external = body.external_id ?? before?.external_id ?? "";
  if ((arn === "") !== (session === "")) {
    return refuse("invalid", "assume_role_arn: must be set together with assume_role_session_name, or neither");
  }
  if (external !== "" && arn === "") return refuse("invalid", "external_id: needs assume_role_arn");
  if (arn !== "" && !ROLE_ARN.test(arn)) return refuse("invalid", "assume_role_arn: must be the ARN of a role");
  if (session !== "" && !/^[\w+=,.@-]{2,64}$/.test(session)) {
    return refuse("invalid", "assume_role_session_name: must be 2 to 64 characters of the provider's");
  }
  if (external !== "" && !/^[\w+=,.@:/-]{2,1224}$/.test(external)) {
    return refuse("invalid", "external_id: must be 2 to 1224 characters of the provider's");
  }
  return ok({
    ...(before ?? { kind: "static", name, id: "", key: "", previous: "", rotatedAt: 0 }),
    username,
    rotation_period: period,
    assume_role_arn: arn,
    assume_role_session_name: session,
    external_id: external,
    adopt_oldest_key: body.adopt_oldest_key ?? before?.adopt_oldest_key ?? false,
  });
}

/** View of a role, as upstream has it, with `adopt_oldest_key`. */
export function staticView(role: StaticRole): Record<string, unknown> {
  const { name, id, username, rotation_period, assume_role_arn, assume_role_session_name, external_id } = role;
  const { adopt_oldest_key = false } = role;
  return {
    name,
    id,
    username,
    rotation_period,
    assume_role_arn,
    assume_role_session_name,
    external_id,
    adopt_oldest_key,
  };
}

/** The role that calls about the user assume; undefined without one. */
export const assumedBy = (role: StaticRole): Assumed | undefined =>
  role.assume_role_arn === ""
    ? undefined
    : { roleArn: role.assume_role_arn, sessionName: role.assume_role_session_name, externalId: role.external_id };

/** The user of a role, with the account of the role that is assumed for it. */
export const subjectOf = ({ username, assume_role_arn: arn }: StaticRole): string =>
  arn === "" ? username : `${arn.split(":")[4]}/${username}`;

/** Time of the next rotation, ms since 1970. */
export const dueOf = ({ rotatedAt, rotation_period: period }: StaticRole): number => rotatedAt + period * 1000;
