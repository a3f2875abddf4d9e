import { Refusal } from "../http-double.ts";

/**
 * Parameters of the operations that the adapter uses, as facts of the service's published model (SSM, API version
 * 2014-11-06, botocore 1.44.8). Operations and parameters beyond these are refused.
 */

interface Text {
  readonly type: "string";
  readonly min?: number;
  readonly max?: number;
  readonly pattern?: RegExp;
  readonly words?: readonly string[];
}
type Count = { readonly type: "number"; readonly min: number; readonly max: number };
type Rule = Text | Count | { readonly type: "boolean" } | { readonly type: "tags" } | { readonly type: "keys" };

interface Operation {
  readonly required: readonly string[];
  readonly parameters: Readonly<Record<string, Rule>>;
}

const name: Rule = { type: "string", min: 1, max: 2048 };
const resource = { ResourceType: { type: "string", words: ["Parameter"] }, ResourceId: { type: "string" } } as const;
const tagText = /^([\p{L}\p{Z}\p{N}_.:/=+\-@]*)$/u;

export const operations: Readonly<Record<string, Operation>> = {
  PutParameter: {
    required: ["Name", "Value"],
    parameters: {
      Name: name,
      Value: { type: "string", min: 1 },
      Type: { type: "string", words: ["String", "StringList", "SecureString"] },
      KeyId: { type: "string", min: 1, max: 256, pattern: /^([a-zA-Z0-9:/_-]+)$/ },
      Overwrite: { type: "boolean" },
      Tags: { type: "tags" },
      Tier: { type: "string", words: ["Standard", "Advanced", "Intelligent-Tiering"] },
      Description: { type: "string", max: 1024 },
    },
  },
  DescribeParameters: {
    required: [],
    parameters: { MaxResults: { type: "number", min: 1, max: 50 }, NextToken: { type: "string" } },
  },
  GetParameter: { required: ["Name"], parameters: { Name: name, WithDecryption: { type: "boolean" } } },
  DeleteParameter: { required: ["Name"], parameters: { Name: name } },
  AddTagsToResource: {
    required: ["ResourceType", "ResourceId", "Tags"],
    parameters: { ...resource, Tags: { type: "tags" } },
  },
  RemoveTagsFromResource: {
    required: ["ResourceType", "ResourceId", "TagKeys"],
    parameters: { ...resource, TagKeys: { type: "keys" } },
  },
  ListTagsForResource: { required: ["ResourceType", "ResourceId"], parameters: resource },
};

export const refuse = (type: string, message = "", status = 400): Refusal =>
  new Refusal(status, { __type: type, message });

/** Refuses parameters that the model does not allow; like the service it quotes the refused value. */
export function checkParameters(operation: string, given: Record<string, unknown>): void {
  const { required, parameters } = operations[operation] ?? { required: [], parameters: {} };
  for (const field of required) if (given[field] === undefined) throw invalid(field, null);
  for (const [field, value] of Object.entries(given)) {
    const rule = Object.hasOwn(parameters, field) ? parameters[field] : undefined;
    if (rule === undefined || !obeys(value, rule)) throw invalid(field, value);
  }
}

function obeys(value: unknown, rule: Rule): boolean {
  if (rule.type === "boolean") return typeof value === "boolean";
  if (rule.type === "number") return Number.isInteger(value) && Number(value) >= rule.min && Number(value) <= rule.max;
  if (rule.type === "keys") return Array.isArray(value) && value.every((key) => isTag(key, ""));
  if (rule.type === "tags") return areTags(value);
  const { min = 0, max = Number.POSITIVE_INFINITY, pattern = /^/, words } = rule;
  if (typeof value !== "string" || value.length < min || value.length > max || !pattern.test(value)) return false;
  return words === undefined || words.includes(value);
}

function areTags(value: unknown): boolean {
  if (!Array.isArray(value)) return false;
  const keys = value.map((tag: Record<string, unknown>) => tag["Key"]);
  const right = value.every(
    (tag: Record<string, unknown>) => Object.keys(tag).sort().join() === "Key,Value" && isTag(tag["Key"], tag["Value"]),
  );
  return right && new Set(keys).size === keys.length;
}

const isTag = (key: unknown, value: unknown): boolean =>
  typeof key === "string" &&
  typeof value === "string" &&
  key.length >= 1 &&
  key.length <= 128 &&
  value.length <= 256 &&
  tagText.test(key) &&
  tagText.test(value) &&
  !/^aws:/i.test(key);

const invalid = (field: string, value: unknown): Refusal =>
  refuse(
    "ValidationException",
    `1 validation error detected: Value ${JSON.stringify(value)} at '${field}' failed to satisfy constraint`,
  );
