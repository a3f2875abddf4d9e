/** Blocks of a policy document: access to their members, and refusals with line numbers. */

import { type HclMember, type HclObject, type HclValue, quote } from "../../lib/hcl.ts";

/** A document can be written through either API, which say the same refusal in other words. */
export type PolicyApi = "secrets" | "cluster";

/** The refusal of a document, with a message for its author. */
export class Refusal extends Error {
  constructor(private readonly texts: Readonly<Record<PolicyApi, string>>) {
    super(texts.cluster);
  }

  textFor(api: PolicyApi): string {
    return this.texts[api];
  }
}

/** A block, from `kind "label" { … }` or from a member of a JSON object. */
export interface Block {
  readonly kind: string;
  readonly label: string | undefined;
  readonly line: number;
  readonly members: readonly HclMember[];
}

/** The members of a block by name. @throws Refusal for unknown names */
export function fieldsOf(block: Block, known: readonly string[]): (name: string) => HclMember[] {
  for (const member of block.members) {
    if (!known.includes(member.name)) refuseKey(block, member);
  }
  return (name) => block.members.filter((member) => member.name === name);
}

export function memberOf(block: Block, name: string): HclMember | undefined {
  return block.members.find((member) => member.name === name);
}

/** The blocks of a member without a label: one, or several in a JSON list. */
export function blocks(member: HclMember): Block[] {
  if (member.label !== undefined) refuse(`Invalid policy: ${quote(member.name)} takes no label`, member);
  const { name: kind, line } = member;
  return objectsOf(member).map(({ members }) => ({ kind, label: undefined, line, members }));
}

/** The blocks of a member with a label. In JSON the labels are the names one level down. */
export function labelledBlocks(member: HclMember): Block[] {
  const { name: kind, label, line } = member;
  if (!member.assigned) return objectsOf(member).map(({ members }) => ({ kind, label, line, members }));
  return objectsOf(member)
    .flatMap(({ members }) => members)
    .flatMap((inner) => blocks(inner).map((block) => ({ ...block, kind, label: inner.name })));
}

function objectsOf(member: HclMember): HclObject[] {
  const values = Array.isArray(member.value) ? member.value : [member.value];
  return values.map((value) =>
    isObject(value) ? value : refuse(`Invalid policy: ${quote(member.name)} must be a block`, member),
  );
}

function isObject(value: HclValue): value is HclObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function text(member: HclMember): string {
  return typeof member.value === "string"
    ? member.value
    : refuse(`Invalid policy: ${quote(member.name)} must be a text`, member);
}

export function texts(member: HclMember | undefined): string[] {
  if (member === undefined) return [];
  const words = Array.isArray(member.value) ? member.value : [undefined];
  return words.map((word: unknown) =>
    typeof word === "string" ? word : refuse(`Invalid policy: ${quote(member.name)} must be a list of texts`, member),
  );
}

export function title(block: Block): string {
  return block.label === undefined ? block.kind : `${block.kind} ${quote(block.label)}`;
}

export function refuse(message: string, where: { readonly line: number }): never {
  const text = `${message} (line ${where.line})`;
  throw new Refusal({ secrets: `failed to parse policy: ${text.replace(/^Invalid policy: /, "")}`, cluster: text });
}

/** Refuses a document for a reason inside its rule about a path, in the words of the secrets API. */
export function refusePath(message: string): never {
  throw new Refusal({
    secrets: `failed to parse policy: ${message}`,
    cluster: `Failed to parse ACL Policy: ${message}`,
  });
}

function refuseKey(block: Block, { name, line }: HclMember): never {
  const key = `invalid key ${quote(name)} on line ${line}`;
  if (block.kind === "path") refusePath(`${title(block)}: ${key}`);
  throw new Refusal({
    secrets: `failed to parse policy: ${block.kind === DOCUMENT ? "" : `${title(block)}: `}${key}`,
    cluster: `Invalid or duplicate policy keys: ${quote(name)} is not known in ${title(block)} (line ${line})`,
  });
}

/** The kind of the block that holds all others. */
export const DOCUMENT = "the document";
