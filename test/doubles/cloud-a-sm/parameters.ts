/** An error of the service, named as on the wire. */
export class ServiceError extends Error {
  readonly type: string;
  readonly status: number;
  constructor(type: string, message: string, status = 400) {
    super(message);
    this.type = type;
    this.status = status;
  }
}

/** Why a parameter's value is refused; null when it is not. */
type Check = (value: unknown) => string | null;

const text =
  (min: number, max: number, pattern = /^/): Check =>
  (value) =>
    typeof value === "string" && value.length >= min && value.length <= max && pattern.test(value)
      ? null
      : `Member must be a string of ${min} to ${max} characters and satisfy ${pattern}`;

const boolean: Check = (value) => (typeof value === "boolean" ? null : "Member must be a boolean");

const integer =
  (min: number, max: number): Check =>
  (value) =>
    Number.isInteger(value) && Number(value) >= min && Number(value) <= max
      ? null
      : `Member must be an integer from ${min} to ${max}`;

/** 1 to 65 536 bytes of UTF-8. */
const secretString: Check = (value) => {
  const bytes = typeof value === "string" ? Buffer.byteLength(value) : 0;
  return bytes >= 1 && bytes <= 65_536 ? null : "Member must have a length between 1 and 65536 bytes";
};

const tagText = /^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$/u;
const tagKey: Check = (value) =>
  text(1, 128, tagText)(value) ??
  (String(value).toLowerCase().startsWith("aws:") ? "aws: prefixed tag key names are not allowed" : null);

const tags: Check = (value) => {
  if (!Array.isArray(value)) return "Member must be a list";
  for (const one of value as unknown[]) {
    if (typeof one !== "object" || one === null || Object.keys(one).sort().join() !== "Key,Value") {
      return "Each tag must have exactly Key and Value";
    }
    const { Key, Value } = one as { Key: unknown; Value: unknown };
    const problem = tagKey(Key) ?? text(0, 256, tagText)(Value);
    if (problem !== null) return problem;
  }
  const keys = new Set((value as { Key: string }[]).map(({ Key }) => Key));
  return keys.size === value.length ? null : "Tag keys must be unique";
};

const tagKeys: Check = (value) => {
  if (!Array.isArray(value)) return "Member must be a list";
  return (value as unknown[]).map(tagKey).find((problem) => problem !== null) ?? null;
};

const region = text(1, 128, /^([a-z]+-)+\d+$/);
const replicas: Check = (value) => {
  if (!Array.isArray(value) || value.length === 0) return "Member must be a list of at least 1 item";
  for (const one of value as Record<string, unknown>[]) {
    const { Region, KmsKeyId, ...others } = one;
    const problem = region(Region) ?? (KmsKeyId === undefined ? null : text(1, 2048)(KmsKeyId));
    if (problem !== null || Object.keys(others).length > 0) return problem ?? "Unknown parameter";
  }
  return null;
};
const regions: Check = (value) =>
  Array.isArray(value) && value.length > 0
    ? ((value as unknown[]).map(region).find((problem) => problem !== null) ?? null)
    : "Member must be a list of at least 1 item";

const secretId = text(1, 2048, /^[A-Za-z0-9/_+=.@:-]+$/);
const token = text(32, 64);
const value = { ClientRequestToken: token, SecretString: secretString };

/** Each operation's parameters. Those of the real service that our adapter does not use are refused. */
const operations: Record<string, { required: string[]; checks: Record<string, Check> }> = {
  CreateSecret: {
    required: ["Name"],
    checks: {
      Name: text(1, 512, /^[A-Za-z0-9/_+=.@-]+$/),
      ...value,
      Description: text(0, 2048),
      KmsKeyId: text(0, 2048),
      Tags: tags,
      AddReplicaRegions: replicas,
    },
  },
  ReplicateSecretToRegions: {
    required: ["SecretId", "AddReplicaRegions"],
    checks: { SecretId: secretId, AddReplicaRegions: replicas },
  },
  RemoveRegionsFromReplication: {
    required: ["SecretId", "RemoveReplicaRegions"],
    checks: { SecretId: secretId, RemoveReplicaRegions: regions },
  },
  UpdateSecret: {
    required: ["SecretId"],
    checks: { SecretId: secretId, ...value, Description: text(0, 2048), KmsKeyId: text(0, 2048) },
  },
  PutSecretValue: { required: ["SecretId", "SecretString"], checks: { SecretId: secretId, ...value } },
  DeleteSecret: {
    required: ["SecretId"],
    checks: { SecretId: secretId, ForceDeleteWithoutRecovery: boolean, RecoveryWindowInDays: integer(7, 30) },
  },
  RestoreSecret: { required: ["SecretId"], checks: { SecretId: secretId } },
  DescribeSecret: { required: ["SecretId"], checks: { SecretId: secretId } },
  ListSecrets: { required: [], checks: { MaxResults: integer(1, 100), NextToken: text(1, 4096) } },
  GetSecretValue: {
    required: ["SecretId"],
    checks: { SecretId: secretId, VersionId: token, VersionStage: text(1, 256) },
  },
  TagResource: { required: ["SecretId", "Tags"], checks: { SecretId: secretId, Tags: tags } },
  UntagResource: { required: ["SecretId", "TagKeys"], checks: { SecretId: secretId, TagKeys: tagKeys } },
};

export const operationNames: readonly string[] = Object.keys(operations);

/**
 * The parameters of one operation, checked. Throws `ServiceError`. Like the real service a refusal quotes the value
 * that it refuses, which is why clients must not pass such texts on.
 */
export function checkParameters(operation: string, given: unknown): Record<string, unknown> {
  const known = operations[operation];
  if (!known) throw new ServiceError("UnknownOperationException", "");
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    throw new ServiceError("SerializationException", "The body must be a JSON object");
  }
  const parameters: Record<string, unknown> = { ...given };
  for (const name of known.required) {
    if (parameters[name] === undefined) throw invalid(name, undefined, "Member must not be null");
  }
  for (const [name, one] of Object.entries(parameters)) {
    const check = Object.hasOwn(known.checks, name) ? known.checks[name] : undefined;
    if (!check) throw invalid(name, one, "Unknown parameter");
    const problem = check(one);
    if (problem !== null) throw invalid(name, one, problem);
  }
  if (parameters["SecretString"] !== undefined && parameters["ClientRequestToken"] === undefined) {
    const message = "You must provide a ClientRequestToken value. We recommend a UUID-type value.";
    throw new ServiceError("InvalidParameterException", message);
  }
  return parameters;
}

function invalid(name: string, given: unknown, problem: string): ServiceError {
  const message = `1 validation error detected: Value '${JSON.stringify(given)}' at '${name}' failed to satisfy constraint: ${problem}`;
  return new ServiceError("ValidationException", message);
}
