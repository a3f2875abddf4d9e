import * as z from "zod";
import { stringMap } from "../../../platform/http/fields.ts";
import { type CloudAConnection, regionPattern } from "../../../providers/cloud-a-aws/connection.ts";
import { connectionSchema, type Refuse } from "../fields.ts";
import { identityTokenFields } from "../identity-fields.ts";

/** More regions than AWS has for one partition's standard accounts need; the record of an object has limited room. */
const MAX_REPLICAS = 20;

export const text = (rule: RegExp, message: string) =>
  z
    .union([z.string(), z.number()], "must be a text")
    .transform(String)
    .refine((given) => given === "" || rule.test(given), message)
    .optional();

/** CreateSecret, KmsKeyId: an ARN, a key id or an alias. */
const kmsKey = /^[\w/:-]{1,2048}$/;
const KMS_RULE = "must be an encryption key's ARN, id or alias, such as alias/my-key";

/** The region in a key's ARN; null for ids and aliases, which every region has for itself. */
const regionOfKey = (key: string): string | null => /^arn:aws[a-z-]*:kms:([a-z0-9-]+):/.exec(key)?.[1] ?? null;

const replicaRegions = () =>
  stringMap()
    .refine((map) => Object.keys(map).length <= MAX_REPLICAS, `must name at most ${MAX_REPLICAS} regions`)
    .refine(
      (map) => Object.keys(map).every((region) => regionPattern.test(region)),
      "must name regions such as eu-west-1",
    )
    .refine(
      (map) => Object.values(map).every((key) => key === "" || kmsKey.test(key)),
      `each value ${KMS_RULE}, or empty`,
    )
    .refine(
      (map) => Object.entries(map).every(([region, key]) => (regionOfKey(key) ?? region) === region),
      "each key must be one of its own region",
    )
    .nullish();

/** Login and region. Lengths and character sets of role and external id: STS AssumeRole, API version 2011-06-15. */
export const accountFields = () => ({
  access_key_id: text(/^\w{1,128}$/, "must be letters, digits and underscores, at most 128"),
  secret_access_key: text(/^[\x21-\x7e]{1,256}$/, "must be printable characters without spaces, at most 256"),
  region: text(regionPattern, "must look like eu-west-1"),
  role_arn: text(
    /^(?=.{20,2048}$)arn:aws[a-z-]*:iam::\d{12}:role\/[\w+=,.@/-]+$/,
    "must look like arn:aws:iam::123456789012:role/name",
  ),
  external_id: text(/^[\w+=,.@:/-]{2,1224}$/, "must be 2 to 1224 letters, digits or characters of +=,.@:/-_"),
  ...identityTokenFields,
});

type Given = { [K in keyof ReturnType<typeof accountFields>]?: unknown } & Partial<
  Record<"region" | "kms_key_id", string | undefined>
>;

/** The rules between fields of the account and `kms_key_id`. */
export function checkAccount(given: Given, refuse: Refuse): void {
  if (!given.access_key_id !== !given.secret_access_key) {
    const missing = given.access_key_id ? "secret_access_key" : "access_key_id";
    refuse(missing, "access_key_id and secret_access_key must be given together or not at all");
  }
  if (given.identity_token_audience && given.access_key_id) {
    refuse("identity_token_audience", "cannot be set together with access_key_id");
  }
  if (given.identity_token_audience && !given.role_arn) {
    refuse("role_arn", "is required with identity_token_audience");
  }
  const keyRegion = regionOfKey(given.kms_key_id ?? "");
  if (given.region && keyRegion !== null && keyRegion !== given.region) {
    refuse("kms_key_id", "must be a key of the destination's region");
  }
}

export const cloudAConnection: () => z.ZodType<CloudAConnection> = connectionSchema(
  () => ({ ...accountFields(), kms_key_id: text(kmsKey, KMS_RULE), replica_regions: replicaRegions() }),
  (given, refuse) => {
    checkAccount(given, refuse);
    if (given.region && given.replica_regions && given.region in given.replica_regions) {
      refuse("replica_regions", "must not name the destination's own region");
    }
  },
);
