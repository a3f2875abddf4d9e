import { expect } from "vitest";
import { type Answer, get, put } from "./client.ts";
import { succeeded } from "./engine-helpers.ts";

/*
 * Terraform's providers handle a resource so: they write the fields that a configuration names, read the object and
 * compare. A plan has no difference when every field that was given reads back equal, and one that was not is absent or has
 * its type's zero value, unless the provider's schema computes it. Field names: the functions Create and Read of each
 * resource of terraform-provider-vault and terraform-provider-nomad.
 */

export type Fields = Readonly<Record<string, unknown>>;
export type Options = Parameters<typeof get>[1];

export const vault: Options = { token: null, headers: { "X-Vault-Token": "root", "X-Vault-Request": "true" } };
export const nomad: Options = { token: null, headers: { "X-Nomad-Token": "root" } };

export interface Resource {
  readonly name: string;
  /** Fields that the schema does not compute: each is either given or absent. */
  readonly fields: readonly string[];
  /** Fields that the schema computes where they are not given. */
  readonly computed?: readonly string[];
  readonly configurations: readonly Fields[];
  /** Creates the objects that the resource requires. */
  readonly prepare?: () => Promise<unknown>;
  /** @returns the path of the object's read */
  readonly create: (given: Fields, at: number) => Promise<string>;
  /** The fields that the provider copies into its state. */
  readonly read: (id: string) => Promise<Fields>;
  /** Absent where every change makes a new object. */
  readonly update?: (id: string, given: Fields) => Promise<unknown>;
}

/** A resource that one path is written to and read from; `d` at its end has a number per configuration. */
export interface AtPath extends Pick<Resource, "name" | "fields" | "configurations" | "prepare"> {
  readonly path: string;
  /** A configuration as the provider writes it. */
  readonly body?: (given: Fields) => unknown;
  readonly state: (answer: Answer) => Fields;
  readonly write?: typeof put;
  /** It is made by a write, and changed by others. */
  readonly once?: true;
}

export function atPath({ path, body, state, once, write = put, ...rest }: AtPath): Resource {
  const options = rest.name.startsWith("nomad") ? nomad : vault;
  const apply = async (to: string, given: Fields) => succeeded(await write(to, body?.(given) ?? given, options));
  return {
    ...rest,
    create: async (given, at) => {
      const to = path.replace(/d$/, `d${at}`);
      await apply(to, given);
      return to;
    },
    read: async (from) => state(succeeded(await get(from, options))),
    ...(!once && { update: apply }),
  };
}

const isEmpty = (value: unknown): boolean =>
  [undefined, null, "", false].includes(value as string) ||
  (typeof value === "object" && value !== null && Object.keys(value).length === 0);

const inOrder = (_key: string, value: unknown) =>
  typeof value === "object" && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)))
    : value;

/** A value as the state holds it: the provider's texts are given as numbers by the API, and fields have no order. */
const held = (value: unknown): string =>
  JSON.stringify(typeof value === "number" ? String(value) : value, inOrder) ?? "";

/** The differences that a plan would show. A number 0 is one where nothing was given: the state would hold the text "0". */
export const differences = (fields: readonly string[], given: Fields, state: Fields): string[] =>
  fields.flatMap((field) => {
    const [wanted, shown] = [given[field], state[field]];
    const same = isEmpty(wanted) ? isEmpty(shown) : held(wanted) === held(shown);
    return same ? [] : [`${field}: ${JSON.stringify(shown)} -> ${JSON.stringify(wanted)}`];
  });

/** Applies each configuration, plans, applies it again where that is an update, and plans. */
export async function expectNoDifference(resource: Resource): Promise<void> {
  await resource.prepare?.();
  for (const [at, given] of resource.configurations.entries()) {
    const fields = [...resource.fields, ...(resource.computed ?? []).filter((field) => given[field] !== undefined)];
    const id = await resource.create(given, at);
    expect(differences(fields, given, await resource.read(id)), JSON.stringify(given)).toEqual([]);
    await resource.update?.(id, given);
    expect(differences(fields, given, await resource.read(id)), `again: ${JSON.stringify(given)}`).toEqual([]);
  }
}

export const named = (resource: Resource): [string, Resource] => [resource.name, resource];
