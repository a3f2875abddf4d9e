import { createHash, randomBytes } from "node:crypto";
import { checkParameters, ServiceError } from "./parameters.ts";

interface Version {
  id: string;
  value: string;
  stages: Set<string>;
}

interface Secret {
  arn: string;
  name: string;
  description: string | null;
  tags: Map<string, string>;
  versions: Version[];
  kmsKeyId: string | null;
  /** Encryption keys by region of the replicas. */
  replicas: Map<string, string | null>;
  /** Milliseconds since the epoch; null unless it is scheduled for deletion. */
  deletedAt: number | null;
}

/** One secret in `GET /_double/secrets`. `value` is the current one. */
export interface SecretView {
  name: string;
  value: string | null;
  sha256: string | null;
  tags: Record<string, string>;
  versions: { id: string; stages: string[]; sha256: string }[];
  scheduledForDeletion: boolean;
  kmsKeyId: string | null;
  replicas: Record<string, string | null>;
}

export interface StoreOptions {
  region: string;
  accountId: string;
  now(): number;
  /** Versions a secret may have before LimitExceededException (100 with the real service, none removed for 24 h). */
  maxVersions: number;
  /** How long a name cannot be created again after a forced deletion, in milliseconds. */
  nameHeldMs: number;
}

const markedForDeletion = "You can't perform this operation on the secret because it was marked for deletion.";
const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");

type Parameters = Record<string, unknown>;

/**
 * The rules of AWS Secrets Manager (API reference, version 2017-10-17) that our adapter depends on, in memory.
 * Where the reference leaves room, the refusal is chosen.
 */
export class SecretsStore {
  readonly #options: StoreOptions;
  readonly #secrets = new Map<string, Secret>();
  /** Names that a forced deletion has not given back yet, and when it will. */
  readonly #held = new Map<string, number>();

  constructor(options: StoreOptions) {
    this.#options = options;
  }

  reset(): void {
    this.#secrets.clear();
    this.#held.clear();
  }

  view(): SecretView[] {
    return [...this.#secrets.values()].map((secret) => {
      const value = currentVersion(secret)?.value ?? null;
      return {
        name: secret.name,
        value,
        sha256: value === null ? null : sha256(value),
        tags: Object.fromEntries(secret.tags),
        versions: secret.versions.map(({ id, stages, value: of }) => ({ id, stages: [...stages], sha256: sha256(of) })),
        scheduledForDeletion: secret.deletedAt !== null,
        kmsKeyId: secret.kmsKeyId,
        replicas: Object.fromEntries(secret.replicas),
      };
    });
  }

  /** Performs one operation; null is an answer without a body. Throws `ServiceError`. */
  call(operation: string, given: unknown): Parameters | null {
    const parameters = checkParameters(operation, given);
    const name = String(parameters["Name"] ?? parameters["SecretId"]);
    switch (operation) {
      case "CreateSecret":
        return this.#create(name, parameters);
      case "UpdateSecret":
        return this.#update(this.#active(name), parameters);
      case "PutSecretValue":
        return this.#putValue(this.#active(name), parameters);
      case "DeleteSecret":
        return this.#delete(name, parameters);
      case "RestoreSecret":
        return this.#restore(this.#existing(name));
      case "ListSecrets":
        return this.#list(Number(parameters["MaxResults"] ?? 100), Number(parameters["NextToken"] ?? 0));
      case "DescribeSecret":
        return describe(this.#existing(name));
      case "GetSecretValue":
        return getValue(this.#active(name), parameters);
      case "TagResource":
        return tag(this.#active(name), parameters);
      case "ReplicateSecretToRegions":
        return this.#replicate(this.#active(name), parameters["AddReplicaRegions"]);
      case "RemoveRegionsFromReplication":
        return endReplication(this.#active(name), parameters["RemoveReplicaRegions"] as string[]);
      case "UntagResource":
        return untag(this.#active(name), parameters);
      default:
        throw new ServiceError("UnknownOperationException", "");
    }
  }

  /** Without secrets that are scheduled for deletion, as by default there. */
  #list(size: number, from: number): Parameters {
    const all = [...this.#secrets.values()].filter(({ deletedAt }) => deletedAt === null);
    const SecretList = all.slice(from, from + size).map(({ name: Name, arn: ARN }) => ({ Name, ARN }));
    return { SecretList, ...(from + size < all.length && { NextToken: String(from + size) }) };
  }

  #existing(nameOrArn: string): Secret {
    const secret = this.#secrets.get(nameOrArn) ?? [...this.#secrets.values()].find(({ arn }) => arn === nameOrArn);
    if (!secret)
      throw new ServiceError("ResourceNotFoundException", "Secrets Manager can't find the specified secret.");
    return secret;
  }

  #active(nameOrArn: string): Secret {
    const secret = this.#existing(nameOrArn);
    if (secret.deletedAt !== null) throw new ServiceError("InvalidRequestException", markedForDeletion);
    return secret;
  }

  #create(name: string, parameters: Parameters): Parameters {
    const existing = this.#secrets.get(name);
    if (existing?.deletedAt != null || (this.#held.get(name) ?? 0) > this.#options.now()) {
      const message = "a secret with this name is already scheduled for deletion.";
      throw new ServiceError("InvalidRequestException", `You can't create this secret because ${message}`);
    }
    const id = String(parameters["ClientRequestToken"]);
    const value = parameters["SecretString"];
    if (existing) {
      const repeated = existing.versions.find((version) => version.id === id);
      if (repeated === undefined || repeated.value !== value) {
        throw new ServiceError(
          "ResourceExistsException",
          `The operation failed because the secret ${name} already exists.`,
        );
      }
      return answerOf(existing, id);
    }
    const { region, accountId } = this.#options;
    const suffix = randomBytes(8).toString("base64url").replace(/[-_]/g, "x").slice(0, 6);
    const secret: Secret = {
      arn: `arn:aws:secretsmanager:${region}:${accountId}:secret:${name}-${suffix}`,
      name,
      description: null,
      tags: new Map(),
      versions: [],
      kmsKeyId: null,
      replicas: new Map(),
      deletedAt: null,
    };
    if (parameters["AddReplicaRegions"] !== undefined) this.#replicate(secret, parameters["AddReplicaRegions"]);
    tag(secret, { Tags: parameters["Tags"] ?? [] });
    this.#describeAs(secret, parameters);
    if (typeof value === "string") this.#addVersion(secret, id, value);
    this.#secrets.set(name, secret);
    return answerOf(secret, typeof value === "string" ? id : null);
  }

  #update(secret: Secret, parameters: Parameters): Parameters {
    const value = parameters["SecretString"];
    const id = String(parameters["ClientRequestToken"]);
    // Not idempotent: "If you call this operation with a ClientRequestToken that matches an existing version's
    // VersionId, the operation results in an error."
    if (typeof value === "string") {
      if (secret.versions.some((version) => version.id === id)) throw versionExists(id);
      this.#addVersion(secret, id, value);
    }
    this.#describeAs(secret, parameters);
    return answerOf(secret, typeof value === "string" ? id : null);
  }

  #putValue(secret: Secret, parameters: Parameters): Parameters {
    const id = String(parameters["ClientRequestToken"]);
    const value = String(parameters["SecretString"]);
    const repeated = secret.versions.find((version) => version.id === id);
    if (repeated !== undefined && repeated.value !== value) throw versionExists(id);
    if (repeated === undefined) this.#addVersion(secret, id, value);
    const stages = secret.versions.find((version) => version.id === id)?.stages ?? [];
    return { ...answerOf(secret, id), VersionStages: [...stages] };
  }

  #addVersion(secret: Secret, id: string, value: string): void {
    if (secret.versions.length >= this.#options.maxVersions) {
      throw new ServiceError("LimitExceededException", "The secret has too many versions.");
    }
    const previous = currentVersion(secret);
    for (const version of secret.versions) version.stages.delete("AWSPREVIOUS");
    previous?.stages.delete("AWSCURRENT");
    previous?.stages.add("AWSPREVIOUS");
    secret.versions.push({ id, value, stages: new Set(["AWSCURRENT"]) });
  }

  #describeAs(secret: Secret, { Description, KmsKeyId }: Parameters): void {
    if (typeof Description === "string") secret.description = Description;
    if (typeof KmsKeyId === "string") secret.kmsKeyId = KmsKeyId || null;
  }

  /** Refuses the secret's own region, and regions that have a replica. */
  #replicate(secret: Secret, given: unknown): Parameters {
    for (const { Region, KmsKeyId = null } of given as { Region: string; KmsKeyId?: string }[]) {
      if (Region === this.#options.region || secret.replicas.has(Region)) {
        throw new ServiceError("InvalidParameterException", `Invalid replica region: ${Region}`);
      }
      secret.replicas.set(Region, KmsKeyId);
    }
    return { ARN: secret.arn, ReplicationStatus: replicationOf(secret) };
  }

  #delete(name: string, parameters: Parameters): Parameters {
    const { ForceDeleteWithoutRecovery: force, RecoveryWindowInDays: days } = parameters;
    if (force === true && days !== undefined) {
      const message = "You can't use ForceDeleteWithoutRecovery in conjunction with RecoveryWindowInDays.";
      throw new ServiceError("InvalidParameterException", message);
    }
    const now = this.#options.now();
    const replicas = [...(this.#secrets.get(name)?.replicas.keys() ?? [])];
    if (replicas.length > 0) {
      const message = `You can't delete secret ${name} that still has replica regions [${replicas.join(", ")}].`;
      throw new ServiceError("InvalidRequestException", message);
    }
    if (force !== true) {
      const secret = this.#active(name);
      secret.deletedAt = now + Number(days ?? 30) * 86_400_000;
      return { ...answerOf(secret, null), DeletionDate: secret.deletedAt / 1000 };
    }
    // "If you forcefully delete an already deleted or nonexistent secret, the operation does not return
    // ResourceNotFoundException."
    const secret = this.#secrets.get(name);
    if (secret !== undefined) {
      this.#secrets.delete(name);
      this.#held.set(name, now + this.#options.nameHeldMs);
    }
    return { ARN: secret?.arn ?? name, Name: name, DeletionDate: now / 1000 };
  }

  #restore(secret: Secret): Parameters {
    if (secret.deletedAt === null) {
      throw new ServiceError(
        "InvalidRequestException",
        "The secret is not scheduled for deletion, so it can't be restored.",
      );
    }
    secret.deletedAt = null;
    return answerOf(secret, null);
  }
}

const replicationOf = ({ replicas }: Secret) =>
  [...replicas].map(([Region, KmsKeyId]) => ({
    Region,
    KmsKeyId: KmsKeyId ?? "alias/aws/secretsmanager",
    Status: "InSync",
  }));

function endReplication(secret: Secret, regions: readonly string[]): Parameters {
  for (const region of regions) {
    if (!secret.replicas.delete(region)) {
      throw new ServiceError("InvalidParameterException", `There is no replica in ${region}`);
    }
  }
  return { ARN: secret.arn, ReplicationStatus: replicationOf(secret) };
}

const currentVersion = (secret: Secret) => secret.versions.find(({ stages }) => stages.has("AWSCURRENT"));

const versionExists = (id: string) =>
  new ServiceError("ResourceExistsException", `You can't use ClientRequestToken ${id}: a version with it exists.`);

const answerOf = ({ arn, name }: Secret, versionId: string | null): Parameters => ({
  ARN: arn,
  Name: name,
  ...(versionId === null ? {} : { VersionId: versionId }),
});

function describe(secret: Secret): Parameters {
  const staged = secret.versions.filter(({ stages }) => stages.size > 0);
  return {
    ...answerOf(secret, null),
    ...(secret.description === null ? {} : { Description: secret.description }),
    ...(secret.kmsKeyId === null ? {} : { KmsKeyId: secret.kmsKeyId }),
    ...(secret.replicas.size === 0 ? {} : { ReplicationStatus: replicationOf(secret) }),
    ...(secret.deletedAt === null ? {} : { DeletedDate: secret.deletedAt / 1000 }),
    // Both are optional in the reference, so a reader must do without.
    ...(secret.tags.size === 0 ? {} : { Tags: [...secret.tags].map(([Key, Value]) => ({ Key, Value })) }),
    ...(staged.length === 0
      ? {}
      : { VersionIdsToStages: Object.fromEntries(staged.map(({ id, stages }) => [id, [...stages]])) }),
  };
}

function getValue(secret: Secret, { VersionId: id, VersionStage: stage = "AWSCURRENT" }: Parameters): Parameters {
  const found = secret.versions.find((version) =>
    id === undefined ? version.stages.has(String(stage)) : version.id === id,
  );
  if (!found)
    throw new ServiceError("ResourceNotFoundException", "Secrets Manager can't find the specified secret value.");
  return { ...answerOf(secret, found.id), SecretString: found.value, VersionStages: [...found.stages] };
}

function tag(secret: Secret, { Tags }: Parameters): null {
  const wanted = new Map(secret.tags);
  for (const { Key, Value } of Tags as { Key: string; Value: string }[]) wanted.set(Key, Value);
  if (wanted.size > 50) throw new ServiceError("InvalidParameterException", "A secret can have at most 50 tags.");
  secret.tags = wanted;
  return null;
}

function untag(secret: Secret, { TagKeys }: Parameters): null {
  for (const key of TagKeys as string[]) secret.tags.delete(key);
  return null;
}
