import { kindsOf } from "../credentials/engines/description.ts";
import { engineDescriptions } from "../credentials/engines/descriptions.ts";
import type { Dialect } from "./dialect.ts";

/*
 * Names of engine types, of the fields of their bodies, and of the values of these fields: neutral and upstream, as the
 * types describe them.
 */

/** The neutral name of a mount type. */
export const neutralMountType = (type: string): string =>
  engineDescriptions.find(({ upstream }) => upstream === type)?.type ?? type;

/** A mount type in the caller's dialect. */
export const translateMountType = (dialect: Dialect, type: string): string =>
  (dialect === "upstream" ? engineDescriptions.find((each) => each.type === type)?.upstream : undefined) ?? type;

/** The bodies of the types. */
const bodies = () => engineDescriptions.flatMap((each) => [each.config, ...kindsOf(each).map(({ fields }) => fields)]);

/** The upstream names of the engine types. */
export const upstreamEngines = (): string[] => engineDescriptions.map(({ upstream }) => upstream);

/** The path of the configuration of a type, and that of its rotation, without their first slashes. */
export function configPaths(type: string): { readonly config: string; readonly rotate: string } {
  const { config, rotate } = engineDescriptions.find((each) => each.type === type)?.paths ?? {};
  return { config: (config ?? "/config").slice(1), rotate: (rotate ?? "/rotate-root").slice(1) };
}

/** Fields with two names: neutral name, upstream name. */
const fieldPairs = (): (readonly [string, string])[] =>
  bodies().flatMap((fields) =>
    Object.entries(fields).flatMap(([name, { upstream }]) =>
      upstream === undefined ? [] : [[name, upstream] as const],
    ),
  );

const valuePairs = (): (readonly [string, string])[] =>
  bodies().flatMap((fields) => Object.values(fields).flatMap(({ values }) => values ?? []));

/** The neutral name of a field. */
export const neutralField = (name: string): string =>
  fieldPairs().find(([, upstream]) => upstream === name)?.[0] ?? name;

/** The other name of a field's value. */
export function otherName(value: string): string {
  const pair = valuePairs().find((names) => names.includes(value));
  if (!pair) return value;
  return pair[0] === value ? pair[1] : pair[0];
}

/** A refusal that starts with a field's name, in upstream's naming. */
export const translateField = (message: string): string =>
  fieldPairs().reduce((text, [neutral, upstream]) => text.replace(new RegExp(`^${neutral}\\b`), upstream), message);
