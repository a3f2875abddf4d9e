import { ServiceError } from "../cloud-a-sm/parameters.ts";
import { type KnownKey, verifySignature } from "../cloud-a-sts/signature.ts";
import { callSts, errorXml } from "../cloud-a-sts/sts.ts";
import { DoubleAccount, Refusal, type Reply, startHttpDouble } from "../http-double.ts";
import type { Loopback, Received } from "../loopback.ts";
import { checkParameters, operations, refuse } from "./model.ts";

interface Parameter {
  value: string;
  type: string;
  tier: string;
  keyId: string | undefined;
  version: number;
  tags: Map<string, string>;
}

const MAX_TAGS = 50;

/** The parameters of one account and region, and the key that reaches them. */
export class ParameterAccount extends DoubleAccount {
  readonly key: KnownKey = {
    accessKeyId: `AKIA${crypto.randomUUID().replaceAll("-", "").slice(0, 16).toUpperCase()}`,
    secretAccessKey: crypto.randomUUID(),
  };
  readonly parameters = new Map<string, Parameter>();
  maxParameters = 10_000;
  /** Operations that the account's policy denies. */
  readonly denied = new Set<string>();

  /** Performs one operation. Throws `Refusal`. */
  call(operation: string, given: Record<string, unknown>): unknown {
    checkParameters(operation, given);
    const { Name = given["ResourceId"], Tags, TagKeys } = given;
    const name = String(Name);
    if (operation === "PutParameter") return this.#put(name, given);
    if (operation === "DescribeParameters") return this.#list(given);
    const parameter = this.parameters.get(name);
    if (parameter === undefined) {
      throw refuse(operation.endsWith("Resource") ? "InvalidResourceId" : "ParameterNotFound");
    }
    if (operation === "DeleteParameter") {
      this.parameters.delete(name);
      return {};
    }
    if (operation === "AddTagsToResource") setTags(parameter.tags, Tags);
    if (operation === "RemoveTagsFromResource") for (const key of TagKeys as string[]) parameter.tags.delete(key);
    if (operation === "ListTagsForResource") {
      return { TagList: [...parameter.tags].map(([Key, Value]) => ({ Key, Value })) };
    }
    return operation === "GetParameter" ? { Parameter: shown(name, parameter, given["WithDecryption"] === true) } : {};
  }

  #list({ MaxResults: size = 50, NextToken: from = "0" }: Record<string, unknown>): unknown {
    const [first, end] = [Number(from), Number(from) + Number(size)];
    const Parameters = [...this.parameters]
      .slice(first, end)
      .map(([Name, { type, version }]) => ({ Name, Type: type, Version: version }));
    return { Parameters, ...(end < this.parameters.size && { NextToken: String(end) }) };
  }

  #put(name: string, given: Record<string, unknown>): unknown {
    const { Type = "String", Overwrite = false, Tags, KeyId } = given;
    const value = String(given["Value"]);
    if (Overwrite && Tags !== undefined) {
      throw refuse("ValidationException", "Invalid request: tags and overwrite can't be used together.");
    }
    checkName(name);
    if (/\{\{.*\}\}/s.test(value)) {
      throw refuse("ValidationException", `Parameter value ${value} cannot contain nested parameters.`);
    }
    const known = this.parameters.get(name);
    const tier = tierOf(given["Tier"], Buffer.byteLength(value), known?.tier);
    if (known === undefined) {
      if (this.parameters.size >= this.maxParameters) throw refuse("ParameterLimitExceeded");
      const tags = new Map<string, string>();
      setTags(tags, Tags ?? []);
      this.parameters.set(name, { value, type: String(Type), tier, keyId: KeyId as string, version: 1, tags });
      return { Version: 1, Tier: tier };
    }
    if (!Overwrite) throw refuse("ParameterAlreadyExists");
    if (known.type !== Type) throw refuse("HierarchyTypeMismatchException");
    Object.assign(known, { value, tier, keyId: KeyId ?? known.keyId, version: known.version + 1 });
    return { Version: known.version, Tier: tier };
  }
}

function checkName(name: string): void {
  const levels = name.split("/").length - 1;
  if (levels > 15) throw refuse("HierarchyLevelLimitExceededException");
  const hierarchy = name.includes("/") ? name.startsWith("/") : true;
  const parts = name.replace(/^\//, "").split("/");
  if (!hierarchy || /^\/?(aws|ssm)/i.test(name) || !parts.every((part) => /^[\w.-]+$/.test(part))) {
    throw refuse("ValidationException", `Parameter name: can't be prefixed with "ssm" (case-insensitive): ${name}`);
  }
  if (name.length > 1011 - 60) throw refuse("ValidationException", "The ARN of the parameter is too long");
}

/** A value beyond 4 KB needs the advanced tier, from which there is no way back. */
function tierOf(given: unknown, bytes: number, before: string | undefined): string {
  const isLarge = bytes > 4096;
  if (bytes > 8192) throw refuse("ValidationException", "The maximum parameter value is 8192 characters.");
  const asked = given ?? "Standard";
  if (asked === "Standard" && isLarge) {
    throw refuse(
      "ValidationException",
      "Standard tier parameters support a maximum parameter value of 4096 characters.",
    );
  }
  if (given === "Standard" && before === "Advanced") throw refuse("ValidationException", "The tier cannot be lowered.");
  return asked === "Advanced" || isLarge || before === "Advanced" ? "Advanced" : "Standard";
}

function setTags(tags: Map<string, string>, given: unknown): void {
  for (const { Key, Value } of given as { Key: string; Value: string }[]) tags.set(Key, Value);
  if (tags.size > MAX_TAGS) throw refuse("TooManyTagsError");
}

const shown = (Name: string, { value, type, version }: Parameter, decrypted: boolean) => ({
  Name,
  Type: type,
  Value: type === "SecureString" && !decrypted ? Buffer.from(`encrypted ${version}`).toString("base64") : value,
  Version: version,
  LastModifiedDate: Date.now() / 1000,
  ARN: `arn:aws:ssm:eu-west-1:123456789012:parameter/${Name.replace(/^\//, "")}`,
  DataType: "text",
});

export interface ParameterDouble extends Loopback {
  open(): ParameterAccount;
}

const isSts = ({ headers }: Received): boolean => headers["x-amz-target"] === undefined;
const operationOf = ({ headers }: Received): string => headers["x-amz-target"]?.replace(/^AmazonSSM\./, "") ?? "";

/** AWS SSM Parameter Store and STS (GetCallerIdentity): verifies each signature, refuses unknown parameters. */
export async function startParameterStore(): Promise<ParameterDouble> {
  const accounts: ParameterAccount[] = [];

  async function authenticate(request: Received): Promise<ParameterAccount> {
    const service = isSts(request) ? "sts" : "ssm";
    const find = (id: string) => accounts.find(({ key }) => key.accessKeyId === id)?.key;
    const verdict = await verifySignature(request, { service, regions: ["eu-west-1"], now: Date.now(), find });
    if (!verdict.ok) {
      if (service === "ssm") throw refuse(verdict.type, verdict.message);
      throw new Refusal(403, errorXml(verdict.type, verdict.message), { "content-type": "text/xml" });
    }
    const account = accounts.find(({ key }) => key === verdict.key);
    if (account === undefined) throw new Error("no account");
    return account;
  }

  function perform(request: Received, account: ParameterAccount): Reply {
    if (request.method !== "POST" || request.target !== "/") throw refuse("UnknownOperationException", "", 404);
    if (isSts(request)) return identify(request, account);
    const operation = operationOf(request);
    const { "content-type": type, "x-amz-target": target } = request.headers;
    if (type !== "application/x-amz-json-1.1" || target !== `AmazonSSM.${operation}` || !(operation in operations)) {
      throw refuse("UnknownOperationException");
    }
    if (account.denied.has(operation))
      throw refuse("AccessDeniedException", `not authorized to perform: ssm:${operation}`);
    const given = JSON.parse(request.body.toString()) as Record<string, unknown>;
    return { status: 200, body: account.call(operation, given), headers: { "content-type": type } };
  }

  const double = await startHttpDouble<ParameterAccount>({
    authenticate,
    perform,
    isWrite: (request) => !isSts(request) && !/^(Get|List|Describe)/.test(operationOf(request)),
    refusals: {
      throttled: refuse("ThrottlingException", "Rate exceeded").reply,
      unavailable: refuse("ServiceUnavailable", "", 503).reply,
      forbidden: refuse("AccessDeniedException", "not authorized").reply,
    },
  });
  return {
    ...double,
    open() {
      const account = new ParameterAccount();
      accounts.push(account);
      return account;
    },
  };
}

function identify({ body }: Received, { key }: ParameterAccount): Reply {
  const headers = { "content-type": "text/xml" };
  try {
    return { status: 200, body: callSts(body.toString(), key, [], Date.now()).xml, headers };
  } catch (problem) {
    if (!(problem instanceof ServiceError)) throw problem;
    throw new Refusal(problem.status, errorXml(problem.type, problem.message), headers);
  }
}
