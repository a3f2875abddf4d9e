import * as z from "zod";
import { memo } from "../../../lib/memo.ts";
import { stringList, stringMap } from "../../../platform/http/fields.ts";
import { nullMeans } from "../../../platform/http/nulls.ts";
import type { CloudCConnection } from "../../../providers/cloud-c-gcp/connection.ts";
import { projectPattern, projectRule, serviceAccountKey } from "../../../providers/cloud-c-gcp/key.ts";
import { withoutUnset } from "../fields.ts";
import { identityTokenFields } from "../identity-fields.ts";

const MAX_LOCATIONS = 20;

/** Resource names of Cloud KMS; letters differ by case. */
const keyName =
  /^projects\/[^/\s]{1,128}\/locations\/([a-z0-9-]{1,63})\/keyRings\/[\w-]{1,63}\/cryptoKeys\/[\w-]{1,63}$/;
const KEY_RULE = "must look like projects/my-project/locations/europe-west1/keyRings/my-ring/cryptoKeys/my-key";
const locationOf = (key: string): string | null => keyName.exec(key)?.[1] ?? null;

const globalKey = () =>
  z
    .string("must be a text")
    .refine((key) => key === "" || keyName.test(key), KEY_RULE)
    .refine(
      (key) => key === "" || locationOf(key) === "global" || !keyName.test(key),
      "must be a key of the location global",
    )
    .optional();

const location = /^[a-z0-9-]{1,63}$/;
const LOCATION_RULE = "must name locations such as europe-west1";

/** Keys by location. @param mayBeEmpty whether a location may be without a key */
const keysByLocation = (mayBeEmpty: boolean) =>
  stringMap()
    .refine((map) => Object.keys(map).length <= MAX_LOCATIONS, `must name at most ${MAX_LOCATIONS} locations`)
    .refine((map) => Object.keys(map).every((name) => location.test(name)), LOCATION_RULE)
    .refine(
      (map) => Object.entries(map).every(([name, key]) => (mayBeEmpty && key === "") || locationOf(key) === name),
      `each value ${KEY_RULE}, in its own location`,
    )
    .refine(
      (map) => new Set(Object.values(map).map((key) => key === "")).size <= 1,
      "must have a key for each location, or for none",
    )
    .nullish();

const accountEmail = /^[a-z0-9-]{1,64}@[a-z0-9.:-]{1,128}\.gserviceaccount\.com$/;
const emailRule =
  "failed to parse credentials: invalid service account email format, expected format: project-id@project-id.iam.gserviceaccount.com";
const pairRule =
  "failed to parse credentials: workload identity federation auth requires both identity_token_audience and service_account_email";

const fields = memo(() =>
  z.object({
    credentials: nullMeans(
      z.preprocess((given) => (given === "" ? undefined : given), serviceAccountKey().optional()),
      "",
    ),
    project_id: z
      .union([z.string(), z.number()], projectRule)
      .transform(String)
      .refine((given) => given === "" || projectPattern.test(given), projectRule)
      .optional(),
    service_account_email: z
      .string("must be a text")
      .refine((given) => given === "" || accountEmail.test(given), emailRule)
      .optional(),
    ...identityTokenFields,
    kms_key_id: globalKey(),
    replica_regions: keysByLocation(true),
    global_kms_key: globalKey(),
    replication_locations: stringList()
      .pipe(z.array(z.string().regex(location, LOCATION_RULE)).max(MAX_LOCATIONS))
      .nullish(),
    locational_kms_keys: keysByLocation(false),
  }),
);
type Fields = z.infer<ReturnType<typeof fields>>;

export const cloudCConnection = memo(() =>
  fields().transform((given, context): CloudCConnection => {
    const set: CloudCConnection = withoutUnset(given);
    const problem = loginProblem(set) ?? replicationProblem(set);
    if (problem === null) return set;
    const [field, message] = problem;
    context.addIssue({ code: "custom", path: [field], message });
    return z.NEVER;
  }),
);

type Problem = readonly [field: keyof Fields, message: string];

function loginProblem(given: CloudCConnection): Problem | null {
  const { credentials, project_id, identity_token_audience: audience, service_account_email: email } = given;
  if (!audience !== !email) return [audience ? "service_account_email" : "identity_token_audience", pairRule];
  if (credentials && audience) return ["identity_token_audience", "cannot be set together with credentials"];
  if (!credentials && !audience) return ["credentials", "is required: a service account's key"];
  if (project_id || credentials?.project_id !== undefined) return null;
  const why = credentials
    ? "the key in credentials does not name its project"
    : "there is no key that names the project";
  return ["project_id", `is required, because ${why}`];
}

/** The first of the fields that exclude each other; see `replicationOf`. */
function replicationProblem(given: CloudCConnection): Problem | null {
  const older = ["global_kms_key", "replication_locations", "locational_kms_keys"] as const;
  const used = older.find((field) => given[field] !== undefined);
  if (given.kms_key_id && given.replica_regions) return ["replica_regions", "cannot be set together with kms_key_id"];
  if (used && (given.kms_key_id || given.replica_regions)) {
    return [used, "cannot be set together with kms_key_id or replica_regions"];
  }
  const { global_kms_key: key, replication_locations: locations = [], locational_kms_keys: keys = {} } = given;
  if (key && used !== undefined && (locations.length > 0 || Object.keys(keys).length > 0)) {
    return ["global_kms_key", "cannot be set together with replication_locations or locational_kms_keys"];
  }
  const keyed = Object.keys(keys);
  const isComplete =
    keyed.length === 0 || (keyed.length === locations.length && locations.every((name) => name in keys));
  return isComplete ? null : ["locational_kms_keys", "must have a key for each of replication_locations"];
}

/** The replication policy of new secrets (Secret Manager API v1, Replication); the provider never changes it. */
export function replicationOf(given: CloudCConnection): Record<string, unknown> {
  const { replication_locations: locations = [], locational_kms_keys: keys = {} } = given;
  const regions = given.replica_regions ?? Object.fromEntries(locations.map((name) => [name, keys[name] ?? ""]));
  const encrypted = (kmsKeyName: string | undefined) =>
    kmsKeyName ? { customerManagedEncryption: { kmsKeyName } } : {};
  const replicas = Object.entries(regions).map(([name, key]) => ({ location: name, ...encrypted(key) }));
  if (replicas.length > 0) return { userManaged: { replicas } };
  return { automatic: encrypted(given.kms_key_id ?? given.global_kms_key) };
}
